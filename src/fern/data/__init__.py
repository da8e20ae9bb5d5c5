"""Real series: published data sets, audit, cleaning, frames, splits, windows, scaling.

Names are imported when they are first used, so that ``import fern.data`` does not load torch.
"""

from typing import TYPE_CHECKING

from fern._lazy import lazy_names

if TYPE_CHECKING:
    from fern.data.auditing.audit import AuditReport, audit
    from fern.data.auditing.policy import COUNTS_POLICY, PAPER_POLICY, Policy, read_policy
    from fern.data.cleaning import Change, CleanLog, clean
    from fern.data.datasets import PUBLISHED, Published, find_dataset, get_dataset, load_dataset
    from fern.data.frequency import Frequency
    from fern.data.scaling import Scaler, fit_scaler
    from fern.data.series_table import Series, SeriesTable, read_frame
    from fern.data.splits import PRESETS, Part, Split, split
    from fern.data.windows import Windows
else:  # unseen by type checkers: a __getattr__ would make every name, misspelt ones too, an Any
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "fern.data.auditing.audit": ["AuditReport", "audit"],
            "fern.data.auditing.policy": ["COUNTS_POLICY", "PAPER_POLICY", "Policy", "read_policy"],
            "fern.data.cleaning": ["Change", "CleanLog", "clean"],
            "fern.data.datasets": ["PUBLISHED", "Published", "find_dataset", "get_dataset", "load_dataset"],
            "fern.data.frequency": ["Frequency"],
            "fern.data.scaling": ["Scaler", "fit_scaler"],
            "fern.data.series_table": ["Series", "SeriesTable", "read_frame"],
            "fern.data.splits": ["PRESETS", "Part", "Split", "split"],
            "fern.data.windows": ["Windows"],
        },
    )

__all__ = [
    "COUNTS_POLICY",
    "PAPER_POLICY",
    "PRESETS",
    "PUBLISHED",
    "AuditReport",
    "Change",
    "CleanLog",
    "Frequency",
    "Part",
    "Policy",
    "Published",
    "Scaler",
    "Series",
    "SeriesTable",
    "Split",
    "Windows",
    "audit",
    "clean",
    "find_dataset",
    "fit_scaler",
    "get_dataset",
    "load_dataset",
    "read_frame",
    "read_policy",
    "split",
]
