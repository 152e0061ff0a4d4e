import type { EnvironmentFacts } from 'vf-search';

/** What the environment says of itself before it is loaded. */
export const facts = { dataSets: ['deck-mini', 'page-world'] } as const satisfies EnvironmentFacts;
