"""Numbers as tables and pages show them."""


def number(value: float) -> str:
    """Four digits that count; large whole numbers in full.

    Example:
        >>> number(21.6642), number(0.00012345), number(1025000.0), number(336.0)
        ('21.66', '0.0001234', '1,025,000', '336')
    """
    if abs(value) >= 10_000:
        return f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.4g}"
    return f"{value:.4g}"
