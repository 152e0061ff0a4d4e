"""The recipes of the bundled nano models: a trunk, and a package for each model. Run from the root of the repository: `python -m recipes.base.tokenizer --out DIR`."""
