/**
 * The specification's TokenStep and Trajectory: frozen views of one rollout, with the names and positions of the document. They hold no second record: text,
 * ids and log-probs are the rollout's own. Convert them to JSON and back with `JSON.stringify` and `trajectoryFromJson`.
 */
import { ConfigError } from 'vf-search';
import type { Rollout } from 'vf-search/rollouts';
import type { Trajectory as TrainerTrajectory } from 'vf-search/trainer';
import { finalAnswer } from './reward.ts';

/** One token that the policy sampled. */
export interface TokenStep {
  readonly token_id: number;
  readonly token_text: string;
  /** Natural-log probability under the policy that sampled it. */
  readonly log_prob: number;
  /** Index in the whole sequence: prompt, generated and injected tokens. */
  readonly position: number;
}

export interface Trajectory {
  readonly query: string;
  /** Sampled tokens in order; injected ones have no step. */
  readonly token_steps: readonly TokenStep[];
  /** Everything after the prompt, injected text included. */
  readonly generated_text: string;
  /** Null if the rollout failed: it has no reward then. */
  readonly reward: number | null;
  readonly final_answer: string;
  /** Ids of the whole sequence. */
  readonly full_input_ids: readonly number[];
  /** Positions of the sampled tokens in `full_input_ids`. */
  readonly generated_positions: readonly number[];
  /** 0 until the group was scored. */
  readonly advantage: number;
}

export interface TrajectoryOptions {
  /** @default the last user message of the prompt; a trajectory of a trainer has no prompt, so there it is required */
  readonly query?: string;
  /** @default 0 */
  readonly advantage?: number;
  /** The text of a token. @param position its index in the whole sequence */
  tokenText(id: number, position: number): string;
}

/** The parts of a rollout that the view reads. */
export type ViewedRollout = Pick<Rollout, 'prompt' | 'segments' | 'branches' | 'reward'>;

/** The parts of a trajectory of `openGrpoTrainer` that the view reads. */
export type ViewedTrajectory = Pick<TrainerTrajectory, 'ids' | 'targets' | 'logProbs' | 'segments' | 'reward'>;

/**
 * The view of a rollout, or of a trajectory that `openGrpoTrainer` sampled. One without tokens, from a chat policy or a blank question, has no steps and no ids.
 * Throws ConfigError for a trajectory without log-probs, such as a demonstration, and for one of a trainer without a `query`.
 * @example toTrajectory(rollout, { tokenText: (id) => tokenizer.decode([id]), advantage: 0.5 })
 */
export function toTrajectory(viewed: ViewedTrajectory, options: TrajectoryOptions & { readonly query: string }): Trajectory;
export function toTrajectory(viewed: ViewedRollout, options: TrajectoryOptions): Trajectory;
export function toTrajectory(viewed: ViewedRollout | ViewedTrajectory, options: TrajectoryOptions): Trajectory {
  const { segments, reward } = viewed;
  const query = options.query ?? ('prompt' in viewed ? lastUserText(viewed) : undefined);
  if (query === undefined) throw new ConfigError('A trajectory of a trainer has no prompt. Pass its query to toTrajectory.');
  const { ids, positions, logProbs } = 'targets' in viewed ? sampledByTrainer(viewed) : sampledIn(viewed);
  return frozen({
    query,
    token_steps: positions.map((position, i) => ({
      token_id: ids[position]!,
      token_text: options.tokenText(ids[position]!, position),
      log_prob: logProbs[i]!,
      position,
    })),
    generated_text: segments.map(({ text }) => text).join(''),
    reward,
    final_answer: answerIn(segments),
    full_input_ids: ids,
    generated_positions: positions,
    advantage: options.advantage ?? 0,
  });
}

/** Log-probs are those of the positions. */
interface Sampled {
  readonly ids: readonly number[];
  readonly positions: readonly number[];
  readonly logProbs: ArrayLike<number>;
}

function sampledIn({ branches: [branch] }: ViewedRollout): Sampled {
  const tokens = branch?.tokens ?? null;
  if (tokens === null) return { ids: [], positions: [], logProbs: [] };
  const { mask, logProbs } = tokens;
  const positions = Array.from(mask).flatMap((bit, position) => (bit === 1 ? [position] : []));
  return { ids: Array.from(tokens.ids), positions, logProbs: positions.map((position) => logProbs[position]!) };
}

function sampledByTrainer({ ids, targets, logProbs }: ViewedTrajectory): Sampled {
  if (logProbs === null) throw new ConfigError('This trajectory has no log-probs, so it was not sampled. Pass one of generate or trainStep.');
  return { ids: Array.from(ids), positions: Array.from(targets), logProbs };
}

/** Sum of the log-probs of all steps; 0 without steps. */
export function logProbSum({ token_steps }: Trajectory): number {
  return token_steps.reduce((sum, { log_prob }) => sum + log_prob, 0);
}

/** Reads a trajectory back from parsed JSON. Throws ConfigError for another shape, or steps that do not fit the ids. */
export function trajectoryFromJson(json: unknown): Trajectory {
  const value = json as Partial<Record<keyof Trajectory, unknown>> | null;
  const fail = (what: string) => {
    throw new ConfigError(`This is not a trajectory: ${what}. Write it with JSON.stringify(toTrajectory(...)).`);
  };
  if (typeof value !== 'object' || value === null) return fail('it is not an object');
  for (const name of ['query', 'generated_text', 'final_answer'] as const) if (typeof value[name] !== 'string') return fail(`${name} is not text`);
  if (value.reward !== null && !Number.isFinite(value.reward)) return fail('reward is neither a number nor null');
  if (!Number.isFinite(value.advantage)) return fail('advantage is not a number');
  const { full_input_ids: ids, generated_positions: positions, token_steps: steps } = value;
  if (!Array.isArray(ids) || !ids.every(Number.isInteger)) return fail('full_input_ids is not a list of integers');
  if (!Array.isArray(positions) || !Array.isArray(steps) || steps.length !== positions.length) return fail('steps and positions differ in number');
  for (const [i, step] of (steps as (Partial<TokenStep> | null)[]).entries()) {
    const fits = step?.position === positions[i] && ids[step?.position ?? -1] === step?.token_id;
    if (!step || !fits || typeof step.token_text !== 'string' || !Number.isFinite(step.log_prob)) return fail(`step ${i} does not fit its position`);
  }
  return frozen(structuredClone(value) as Trajectory);
}

function frozen(trajectory: Trajectory): Trajectory {
  for (const step of trajectory.token_steps) Object.freeze(step);
  for (const list of [trajectory.token_steps, trajectory.full_input_ids, trajectory.generated_positions]) Object.freeze(list);
  return Object.freeze(trajectory);
}

function lastUserText({ prompt }: ViewedRollout): string {
  const content = prompt.findLast(({ role }) => role === 'user')?.content ?? '';
  return typeof content === 'string' ? content : content.map((part) => ('text' in part ? part.text : '')).join('');
}

/** The answer is found in the model's own text, so that no passage can close or open one; blocks that were injected inside it are part of it. */
function answerIn(segments: ViewedRollout['segments']): string {
  const injected: string[] = [];
  const own = segments.map(({ kind, text }) => (kind === 'model' ? text : null));
  const mark = unusedCharacter(own.join(''));
  const marked = segments.map(({ text }, i) => own[i] ?? `${mark}${injected.push(text) - 1}${mark}`).join('');
  return finalAnswer(marked).replace(new RegExp(`${mark}(\\d+)${mark}`, 'g'), (_, index: string) => injected[Number(index)]!);
}

/** A private-use character that the text does not contain. */
function unusedCharacter(text: string): string {
  const used = new Set(text.match(/[\ue000-\uf8ff]/g));
  for (let code = 0xe000; code < 0xf8ff; code++) if (!used.has(String.fromCharCode(code))) return String.fromCharCode(code);
  return '\uf8ff';
}
