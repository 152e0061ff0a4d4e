/** Compares the first prompts of a training's rows with the policy's window: for the dry run, and before the first step of a run. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { PolicyProbe } from '../../clients/vllm-probe.ts';
import { VllmServer } from '../../clients/vllm-server.ts';
import { VllmTokenizer } from '../../clients/vllm-tokenizer.ts';
import type { Environment } from '../../core/environment.ts';
import { Random } from '../../core/random.ts';
import { trainingRows } from '../../core/training-rows.ts';
import { modelFacts } from '../../files/model-facts.ts';
import { countText } from '../../reports/text/number-text.ts';
import { widerWindow } from '../../rollouts/unplayed-text.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { checkPrompts } from '../check-prompts.ts';
import { type Finding, skipped, warning } from '../finding.ts';
import { longestRollout } from './open-policy-servers.ts';

export interface PromptFindingsOptions {
  readonly config: TrainingConfig;
  readonly environment: Environment;
  /** May be the same. */
  readonly evaluation: Environment;
  /** Of the replicas; empty without a server that runs. */
  readonly baseUrls: readonly string[];
  readonly apiKey?: string | undefined;
  /** What the server said of itself; null if none was asked. */
  readonly probe: PolicyProbe | null;
  /** No further prompt of the training or the evaluation rows is measured after this time; those with the most text come first. @default 5000 */
  readonly limitMs?: number;
  readonly signal: AbortSignal;
}

/** A run does not wait long for what it may do without. */
const NOTICE_MS = 200;
/** Short, because the user waits for the result. */
const ANSWER_MS = 20_000;

export async function promptFindings(options: PromptFindingsOptions): Promise<readonly Finding[]> {
  const { config, environment, evaluation, baseUrls, apiKey, probe, signal } = options;
  const limit = options.limitMs === undefined ? {} : { limitMs: options.limitMs };
  const { maxTokens } = config.rollouts;
  const isLocal = existsSync(join(config.model.path, 'tokenizer.json'));
  if (!isLocal && probe?.kind !== 'tokens')
    return [skipped('prompts', 'not measured: the tokenizer is neither in the folder of the model nor at a server that answers')];
  const server = new VllmServer({
    baseUrl: baseUrls[0] ?? 'http://127.0.0.1',
    timeoutMs: ANSWER_MS,
    maxRetries: 0,
    random: Random.fromSeed(0),
    ...(apiKey === undefined ? {} : { apiKey }),
  });
  try {
    const { openLocalTokenizer } = await import('../../tokenizer/local-tokenizer.ts');
    const tokenizer = isLocal ? await openLocalTokenizer(config.model.path) : new VllmTokenizer().at({ server, model: probe!.model, signal });
    const served = policyWindow(config, environment);
    const windowTokens = probe?.maxModelLen ?? served ?? modelFacts(config.model.path).contextLength;
    const isEmbedded = config.policy.embedded !== null;
    const common = { render: tokenizer.render.bind(tokenizer), isEmbedded, windowTokens, maxTokens, seed: config.seed, signal, ...limit };
    const isSampled = config.steps > 0 && config.rolloutsFile === null && config.source === null;
    const train = isSampled ? trainingRows(environment) : null;
    const { every, examples } = config.evaluation;
    const held = examples === -1 ? evaluation.eval : evaluation.eval.take(examples);
    return [
      ...(train === null ? [] : [await checkPrompts({ ...common, environment, purpose: 'training', rows: train })]),
      ...(every === 0 || held.length === 0 ? [] : [await checkPrompts({ ...common, environment: evaluation, purpose: 'evaluation', rows: held })]),
    ];
  } finally {
    await server.close();
  }
}

/** Says that a window is smaller than the longest rollout; null if it is not, or if either is unknown. In tokens. */
export function smallWindow(window: number | null, longest: number | null): string | null {
  if (window === null || longest === null || window >= longest) return null;
  return `${countText(window)} tokens; the environment's longest rollout needs ${countText(longest)}: longer ones will be cut short`;
}

/** The warnings among them, as notices at the start of a run. */
export async function promptNotices(options: PromptFindingsOptions): Promise<readonly string[]> {
  const { config, environment, probe } = options;
  const small = config.policy.baseUrl === null ? null : smallWindow(probe?.maxModelLen ?? null, longestRollout(environment, config.model.path));
  const ofWindow = small === null ? [] : [warning('window', `the window of the policy has ${small}`, widerWindow(probe!))];
  return [...ofWindow, ...(await promptFindings({ limitMs: NOTICE_MS, ...options }))].flatMap(({ state, text, remedy }) => {
    if (state !== 'warning' && state !== 'missing') return [];
    return [`${text[0]!.toUpperCase()}${text.slice(1)}.${remedy === undefined ? '' : ` ${remedy[0]!.toUpperCase()}${remedy.slice(1)}.`}`];
  });
}

/** The window of a server that the run starts; null if it is that of the model. */
function policyWindow({ policy, model }: TrainingConfig, environment: Environment): number | null {
  return policy.launch === null && policy.embedded === null ? null : longestRollout(environment, model.path);
}
