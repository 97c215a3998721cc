"""Site of the documentation: pages made from code, and their build with Sphinx.

- `staging`: Sources of the site.
- `doors`: Navigation of the site: its doors from docs/site.toml, and the lists on index pages.
- `key_pages`: Pages of keys.
- `selector_pages`: Pages of selectors.
- `selections`: Choices of every selector in one bundled scenario, stored, and drawn.
- `gallery_pages`: Pages of the gallery.
- `gallery`: Measurements of bundled scenarios and studies, stored.
- `drawing`: Parts of drawings in SVG.
- `reference_pages`: Pages of commands, devices, radios, published data sets, errors and failures.
- `api_pages`: Pages of the Python interface.
- `conf`: Settings of Sphinx.
- `checks`: Checks of a built site.
"""
