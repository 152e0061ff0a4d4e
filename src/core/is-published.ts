/** True once vf-search and vf-search-models are on the npm registry. docs/releasing.md says when to change it. */
export const IS_PUBLISHED = false;
