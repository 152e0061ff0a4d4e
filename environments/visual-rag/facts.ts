import type { EnvironmentFacts } from 'vf-search';

/** Facts that the environment declares before it is loaded. */
export const facts = { dataSets: ['deck-mini', 'page-world'] } as const satisfies EnvironmentFacts;
