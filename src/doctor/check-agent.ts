/**
 * Plays an agent once with a script in place of the policy, and says what a run would not notice until it is under way: what of its requests the policy does not honour,
 * how often it leaves its own conversation, and why. The agent's tools run, its judges do not.
 */
import { ExtractiveClient } from '../clients/extractive.ts';
import { agentOf } from '../core/agent-env.ts';
import { scriptedModel } from '../core/builtin-judges.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import { VfError } from '../core/errors.ts';
import type { RoleModels } from '../core/model.ts';
import { plural } from '../reports/text/number-text.ts';
import type { Rollout } from '../rollouts/rollout.ts';
import { runRollouts } from '../rollouts/run-rollouts.ts';
import { gatewayOf } from '../sessions/agent-gateway.ts';
import { type Finding, ok, skipped, warning } from '../sessions/finding.ts';

const NAME = 'agent';
const TIMEOUT_MS = 60_000;
/** Differences shown. */
const MOST_SHOWN = 3;

/** No findings for an environment that does not ask the policy by itself. */
export async function checkAgent(environment: Environment, signal: AbortSignal): Promise<Finding[]> {
  if (environment.asksPolicy !== true) return [];
  const row = [...environment.eval].find((each) => agentOf(environment, each) !== null);
  try {
    return row === undefined ? [] : findingsOf(await playOnce(environment, row, signal));
  } catch (error) {
    if (!(error instanceof VfError) || signal.aborted) throw error;
    return [skipped(NAME, `no dry rollout: ${error.message}`)];
  }
}

async function playOnce(environment: Environment, row: Row, signal: AbortSignal): Promise<Rollout> {
  await using gateway = await gatewayOf([environment]);
  const client = new ExtractiveClient({ kind: 'chat' });
  const groups = runRollouts([{ row, indices: [0] }], {
    environment,
    client,
    models: silentRoles(environment),
    ...(gateway === null ? {} : { gateway }),
    sampling: { temperature: 0, topP: 1 },
    overridesSampling: false,
    maxTokens: null,
    maxConcurrent: 1,
    timeoutMs: TIMEOUT_MS,
    seed: 0,
    signal,
  });
  for await (const { rollouts } of groups) return rollouts[0]!;
  throw new VfError('nothing was played');
}

/** Judges are neither asked nor paid for. */
function silentRoles({ roles = {} }: Environment): RoleModels {
  const silent = scriptedModel({ replies: () => '{"reason": "", "score": 0}' });
  const models = Object.fromEntries(Object.keys(roles).map((role) => [role, silent]));
  return { forRollout: () => ({ models, asked: [] }) };
}

function findingsOf({ turns, branches, unhonoured = [], error }: Rollout): Finding[] {
  const findings: Finding[] = [];
  // What its reward makes of the script's answer is no fault of the agent.
  if (error !== null && error.source !== 'reward' && error.source !== 'model')
    findings.push(
      warning(NAME, `it failed in a dry rollout, with a script in place of the model: ${error.message}`, 'correct it if a model would meet the same'),
    );
  if (unhonoured.length > 0)
    findings.push(
      warning(NAME, `the policy does not honour ${unhonoured.join(', ')} of its requests`, 'leave them out, or do without (docs/agents.md)'),
    );
  const forks = branches.flatMap(({ fork }) => (fork === null ? [] : [fork]));
  const shown = forks.slice(0, MOST_SHOWN).map(({ kind, at, difference }) => `${kind} after ${plural(at, 'message')}: ${difference}`);
  const more = forks.length > MOST_SHOWN ? `; ${forks.length - MOST_SHOWN} more` : '';
  if (forks.length > 0)
    findings.push(
      warning(NAME, `${plural(forks.length, 'fork')} in a dry rollout (${shown.join('; ')}${more})`, 'see "Branches and forks" in docs/agents.md'),
    );
  if (findings.length > 0) return findings;
  return [
    ok(NAME, `${plural(turns, 'request')} in a dry rollout with a script in place of the model, without a fork; the policy honours all of its keys`),
  ];
}
