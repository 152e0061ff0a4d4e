"""How the bundled nano models were made: a trunk, and a package for each model. Run from the root of the repository: `python -m recipes.base.tokenizer --out DIR`."""
