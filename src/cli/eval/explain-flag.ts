/** The error for a flag that `vf-eval` does not have: an argument of the environment, or an option of verifiers v0. */
import { explainArgument } from '../explain-argument.ts';
import type { UnknownFlag } from '../options/define-command.ts';

/** Options of verifiers v0 that vf-eval does not have, with the alternative. */
const LEFT_OUT: Readonly<Record<string, string>> = {
  '-N': 'v0 never used it either',
  '--no-interleave-scoring': 'v0 never used it either',
  '-H': 'use --push OWNER/NAME',
  '--save-to-hf-hub': 'use --push OWNER/NAME',
  '-D': 'use --push OWNER/NAME',
  '--hf-hub-dataset-name': 'use --push OWNER/NAME',
  '-f': 'progress is always shown in a few lines',
  '--fullscreen': 'progress is always shown in a few lines',
  '-d': 'use --plain',
  '--disable-tui': 'use --plain',
  '-w': 'all rollouts share one process; -c sets how many run at once',
  '--num-workers': 'all rollouts share one process; -c sets how many run at once',
  '--disable-env-server': 'environments always run in this process',
  '--heartbeat-url': 'watch results.jsonl instead, which grows with every rollout',
  '--header-from-state': 'a rollout always stays on one replica',
};

/** Null for the usual sentence. */
export async function explainFlag(unknown: UnknownFlag): Promise<string | null> {
  const reason = LEFT_OUT[unknown.flag];
  return reason === undefined ? explainArgument(unknown) : `vf-eval does not have the flag ${unknown.flag} of verifiers v0: ${reason}`;
}
