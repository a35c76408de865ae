"""Pages and pictures that follow from other files; docs/conf.py writes them before Sphinx reads the sources."""
