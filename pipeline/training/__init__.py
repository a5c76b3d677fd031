"""The train stage: networks fitted to streams of the store, fold by fold, and their use on new graphs."""
