/** Checks what an evaluation would find out about its surroundings at its start; its servers were asked when it was opened. Plays and writes nothing. */
import { VfError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import { templateVariables } from '../core/sampling.ts';
import { countText, plural, usdText } from '../reports/text/number-text.ts';
import type { OpenedEvaluation } from '../sessions/evaluation/open-evaluation.ts';
import type { Surroundings } from '../sessions/surroundings.ts';
import { checkResultsDisk } from './check-machine.ts';
import { absentFinding } from './check-model.ts';
import { checkPrompts } from '../sessions/check-prompts.ts';
import { BYTES_PER_TOKEN } from './estimate-disk.ts';
import { type Finding, ok, skipped } from '../sessions/finding.ts';
import { ASSUMED_TOKENS } from '../launch/gpu-plan.ts';

export async function* checkEvaluation(opened: OpenedEvaluation, { variables, signal }: Surroundings): AsyncGenerator<Finding, void> {
  const { request, policy, counts, target } = opened;
  const { environment } = opened.opened;
  yield ok('rows', `${countText(counts.rows)} to play, each with an id of its own`);
  if (target.kind === 'absent') yield absentFinding(target.toDownload, null, variables);
  yield serverFinding(opened);
  if (policy.kind !== 'program') yield await promptsFinding(opened, signal);
  const { contextTokens, responseTokens } = environment.limits;
  const tokens = Math.min(contextTokens + responseTokens, policy.client.capabilities.maxModelLen ?? ASSUMED_TOKENS);
  yield await checkResultsDisk(request.output ?? 'outputs', counts.rows * counts.rolloutsPerRow * tokens * BYTES_PER_TOKEN);
  yield priceFinding(opened);
}

function serverFinding({ policy, target }: OpenedEvaluation): Finding {
  if (policy.baseUrl === null) return skipped('server', 'not needed: no server plays');
  const { maxModelLen, kind } = policy.client.capabilities;
  const window = maxModelLen === null ? '' : `, window of ${plural(maxModelLen, 'token')}`;
  const keyVariable = target.kind === 'endpoint' && target.apiKey !== null ? target.keyVariable : null;
  const key = keyVariable === null ? '' : `, with the key of ${keyVariable}`;
  return ok('server', `${policy.baseUrl} serves ${policy.model} (${kind === 'tokens' ? 'by token ids' : 'by chat'}${window}${key})`);
}

async function promptsFinding(
  { request, opened: { environment }, policy, counts, sampling, target }: OpenedEvaluation,
  signal: AbortSignal,
): Promise<Finding> {
  const { client } = policy;
  const { capabilities } = client;
  const unmeasured = (why: string) => skipped('prompts', `not compared with the window: ${why}`);
  if (target.kind === 'baseline') return unmeasured('the baseline has none');
  try {
    await using lease = await client.lease(signal);
    if (lease.kind === 'chat') return unmeasured('a chat API counts tokens itself');
    const all = request.shuffle === true ? environment.eval.shuffle(Random.fromSeed(counts.shuffleSeed)) : environment.eval;
    return await checkPrompts({
      environment,
      render: (messages, options) => lease.render(messages, { ...options, variables: templateVariables(sampling.sampling) }),
      purpose: 'evaluation',
      rows: all.take(counts.rows),
      windowTokens: capabilities.maxModelLen,
      isEmbedded: capabilities.isEmbedded ?? false,
      maxTokens: sampling.maxTokens,
      seed: counts.seed,
      signal,
    });
  } catch (error) {
    if (!(error instanceof VfError) || signal.aborted) throw error;
    return unmeasured(error.message);
  }
}

function priceFinding({ cost }: OpenedEvaluation): Finding {
  if (cost === null) return ok('price', 'none: no model costs anything');
  const models = [cost.policy, ...Object.values(cost.roles)];
  const unpriced = [...new Set(models.filter(({ price }) => price === null).map(({ model }) => model))];
  if (unpriced.length > 0) return skipped('price', `not known for ${unpriced.join(', ')}: configs/endpoints.toml has none`);
  const limit = cost.limit === null ? 'no --max-cost' : `at most ${usdText(cost.limit)}`;
  return ok('price', `known for every model, ${limit}`);
}
