import { exactMatchJudge, type RoleDeclarations } from 'vf-search';
import { BUILTIN_READER } from './reader.ts';

/** The models in addition to the policy. */
export const VISUAL_ROLES = {
  generator: { about: 'answers the question from the collected pages and crops', default: 'builtin', builtin: BUILTIN_READER },
  judge: { about: "scores the generator's answer against the reference answer", default: 'builtin', builtin: exactMatchJudge() },
} as const satisfies RoleDeclarations;
