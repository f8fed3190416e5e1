"""The engine: what is declared (`spec`), measured (`measure`, `protocols`), run and stored (`runner`), and typed."""
