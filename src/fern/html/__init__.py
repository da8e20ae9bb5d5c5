"""Parts of HTML pages: shell, markup, figures, assets."""
