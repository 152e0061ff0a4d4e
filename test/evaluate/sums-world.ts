/** A small world to evaluate: sums asked over two turns, a scripted policy that gets some right, every part real. */
import { ScriptedClient, type ScriptedOptions, type ScriptedTurn } from '../../src/clients/scripted.ts';
import { Dataset, type Row } from '../../src/core/dataset.ts';
import type { StepContext } from '../../src/core/environment.ts';
import { type EnvResponse, type EpisodeState, MultiTurnEnv } from '../../src/core/multi-turn.ts';
import { groupReward, metric, reward, Rubric } from '../../src/core/rubric.ts';
import type { EvaluationOptions } from '../../src/evaluate/evaluation-options.ts';

interface SumsState extends EpisodeState {
  noted: string;
}

/** Asks for a guess, says "higher or lower", takes the second word as the answer. */
class SumsEnv extends MultiTurnEnv<Row, SumsState> {
  protected setupState(): SumsState {
    return { turns: 0, noted: '' };
  }

  protected envResponse(kept: string, state: SumsState, { trace }: StepContext): EnvResponse {
    trace?.('guess', { kept });
    state.noted += kept[0] ?? '';
    return state.turns === 1 ? { observation: '\u2028 look again: ' } : { done: true };
  }
}

export function sumsEnvironment(options: { rows?: number; groups?: boolean; traces?: boolean } = {}): SumsEnv {
  const rows = Array.from({ length: options.rows ?? 6 }, (_, i) => ({
    exampleId: i,
    prompt: [{ role: 'user' as const, content: `What is ${i} + ${i}?` }],
    answer: String(2 * i),
    info: { difficulty: i / 10 },
  }));
  const isRight = ({ modelText, row }: { modelText: string; row: Row }) => Number(modelText.endsWith(`=${row.answer}`));
  return new SumsEnv({
    id: 'sums',
    eval: new Dataset('sums', rows),
    turnFormat: 'continuation',
    rubric: new Rubric({
      funcs: [
        reward(isRight, { name: 'right' }),
        metric(isRight, { name: 'em', isHeadline: true }),
        metric(({ segments }) => segments.length, { name: 'pieces' }),
        ...(options.groups ? [groupReward((all) => all.map((c) => isRight(c) / all.length), { name: 'shared', weight: 0.5 })] : []),
      ],
    }),
    ...(options.traces === undefined ? {} : { traces: options.traces }),
    provenance: { revision: 'r1' },
    notices: ['sums are not hard'],
  });
}

/** Right for the rollouts whose example and index add up to an even number. */
export function sumsTurn({ index, key }: ScriptedTurn): string {
  if (index === 0) return 'hm, ';
  const [example, rollout] = key!.split('/').map(Number);
  return `=${2 * example! + ((example! + rollout!) % 2)}`;
}

export function sumsClient(options: Partial<ScriptedOptions> = {}): ScriptedClient {
  return new ScriptedClient({
    turns: sumsTurn,
    logProb: (i) => -0.125 * (i + 1),
    ...options,
  });
}

export function sumsOptions(outputDir: string, changes: Partial<EvaluationOptions> = {}): EvaluationOptions {
  return {
    environment: sumsEnvironment(),
    client: sumsClient(),
    run: { envId: 'sums', envArgs: {}, model: 'scripted', baseUrl: null, policyKind: 'tokens', packageVersion: '0.0.0' },
    sampling: { temperature: 1, topP: 1 },
    numExamples: -1,
    rolloutsPerExample: 1,
    maxConcurrent: 4,
    seed: 7,
    shuffle: false,
    shuffleSeed: 0,
    maxTokens: null,
    timeoutMs: null,
    maxRetries: 0,
    independentScoring: false,
    stateColumns: [],
    outputDir,
    resume: false,
    secrets: [],
    signal: new AbortController().signal,
    ...changes,
  };
}
