/** Replaces `src/rollouts/play-agent.ts` in the page, whose environment is played by episodes: nothing there answers an agent. */
import type { playAgent as playAgentOf } from '../../../src/rollouts/play-agent.ts';
import { ConfigError } from '../../../src/core/errors.ts';

/** Throws ConfigError. */
export const playAgent: typeof playAgentOf = () => {
  throw new ConfigError('The page plays no agents. Play this environment in Node.');
};
