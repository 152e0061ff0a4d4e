/** Reads groups of rollouts in the form of `vf-export`, and refuses every line that cannot be trained on. */
import { hash } from 'node:crypto';
import { countText } from '../../core/count-text.ts';
import { ConfigError } from '../../core/errors.ts';
import { exportProblem, type RolloutExport, RolloutExportSchema } from '../../schemas/rollout-export.ts';
import { parseWire } from '../../schemas/results.ts';
import { assertInVocabulary } from './assert-in-vocabulary.ts';
import { type RolloutLine, rolloutsOfLines, trajectoryOfLines } from './branch-lines.ts';
import { tokenParts } from '../trajectory-branches.ts';
import { POLICY_ROLE, type Trajectory } from '../trajectory.ts';

export interface RolloutGroupsOptions {
  /** Name of the file or stream, for messages. */
  readonly name: string;
  /** Its lines. Called once. */
  readonly lines: () => AsyncIterable<string>;
  /** A group is complete with this many rollouts. When the input ends, a smaller group counts too. */
  readonly rolloutsPerGroup: number;
  /** Throws ConfigError for a role that the losses cannot train on. */
  readonly onRole: (role: string) => void;
  /** The temperature at which the trainer divides logits. Rollouts of another temperature are refused. */
  readonly temperature: number;
  /** Hash of the trained model's tokenizer; null if unknown. Rollouts of another tokenizer are refused. */
  readonly tokenizerHash: string | null;
  /** Token ids of the trained model are below it; null if unknown. */
  readonly vocabularySize: number | null;
  /** Rollouts with a sequence of more tokens are left out: the model's window, Infinity if it is unknown. */
  readonly longest: number;
}

/** Why a rollout of another program is not part of its group: it is longer than the window, or the policy had no room for a first token in it, so that it has no reward. */
export type LeftOut = 'long' | 'unplayed';

/** `onLeftOut` gets the place and the number of tokens of every rollout that is left out, and the reason. */
export async function* rolloutGroups(
  options: RolloutGroupsOptions,
  onLeftOut: (place: string, tokens: number, why: LeftOut) => void,
): AsyncGenerator<readonly Trajectory[], void> {
  const { rolloutsPerGroup, longest } = options;
  const open = new Map<string, { readonly members: Trajectory[]; readonly ids: Set<string>; readonly exampleId: string; seen: number }>();
  const samples = new Map<string, number>();
  const owners = new Map<string, { readonly groupId: string; readonly line: number }>();
  for await (const lines of rolloutsOfLines(checkedLines(options))) {
    const [{ rollout, line, place }] = lines;
    const exampleId = String(rollout.example_id);
    const group = open.get(rollout.group_id) ?? { members: [], ids: new Set(), exampleId, seen: 0 };
    open.set(rollout.group_id, group);
    if (exampleId !== group.exampleId)
      throw new ConfigError(
        `${place} has the group_id ${JSON.stringify(rollout.group_id)}, but the example_id ${JSON.stringify(exampleId)} and not ${JSON.stringify(group.exampleId)} as the lines before it: rollouts of different rows would be compared as one group. Give each row a group_id of its own`,
      );
    const trajectory = trajectoryOfLines(lines, group.members.length);
    const id = JSON.stringify([rollout.run_name, rollout.rollout_id]);
    const sampled = lines.flatMap(({ rollout: { token_ids: ids, logprobs } }) => [ids, logprobs]);
    const sample = `${id}${hash('sha256', JSON.stringify(sampled), 'base64')}`;
    const before = samples.get(sample);
    if (before !== undefined)
      throw new ConfigError(
        `${place} is the rollout ${rollout.rollout_id} of line ${before} again, with the same tokens; it would count twice. Remove one of the two lines`,
      );
    const owner = owners.get(id) ?? { groupId: rollout.group_id, line };
    // A row that is played again, after its group was complete, has its ids again.
    if (owner.groupId !== rollout.group_id || group.ids.has(id))
      throw new ConfigError(
        `${place} has the rollout_id ${JSON.stringify(rollout.rollout_id)}, as line ${owner.line} has. Give each rollout an id of its own, or the rollouts of each run another run_name`,
      );
    samples.set(sample, line);
    owners.set(id, owner);
    group.ids.add(id);
    const tokens = Math.max(...tokenParts(trajectory).map(({ ids }) => ids.length));
    const why = leftOutBecause(trajectory, tokens > longest);
    if (why === null) group.members.push(trajectory);
    else onLeftOut(place, tokens, why);
    if (++group.seen < rolloutsPerGroup) continue;
    open.delete(rollout.group_id);
    if (group.members.length > 0) yield group.members;
  }
  for (const { members } of open.values()) if (members.length > 0) yield members;
}

/** Throws ConfigError for a line that the model that is trained cannot have sampled, or that the losses cannot train on. */
async function* checkedLines({
  lines,
  name,
  tokenizerHash,
  vocabularySize,
  temperature,
  onRole,
}: RolloutGroupsOptions): AsyncGenerator<RolloutLine, void> {
  let line = 0;
  for await (const text of lines()) {
    line++;
    if (text.trim() === '') continue;
    const place = `${name}:${line}`;
    const rollout = parsed(text, place);
    if (rollout.tokenizer_hash !== null && tokenizerHash !== null && rollout.tokenizer_hash !== tokenizerHash)
      throw new ConfigError(`${place} holds token ids of another tokenizer; export it again with the model that is trained`);
    assertInVocabulary(rollout.token_ids, vocabularySize, place);
    const sampledAt = (rollout.sampling as { temperature?: unknown }).temperature;
    if (typeof sampledAt === 'number' && sampledAt !== temperature)
      throw new ConfigError(
        `${place} was sampled at temperature ${sampledAt}, but rollouts.temperature is ${temperature}; set it to that of the rollouts`,
      );
    onRole(rollout.role ?? POLICY_ROLE);
    yield { rollout, line, place };
  }
}

/**
 * Reads the whole input before anything is trained. Rejects with ConfigError for a line that cannot be trained on, wherever it is, and for fewer groups than the steps take.
 * Resolves with a sentence about the groups that the steps leave over; null if there are none.
 * @param steps number of steps, each of `groupsPerStep` groups
 */
export async function assertFillsSteps(
  options: RolloutGroupsOptions,
  { steps, groupsPerStep }: { readonly steps: number; readonly groupsPerStep: number },
): Promise<string | null> {
  let [groups, leftOut] = [0, 0];
  for await (const _ of rolloutGroups(options, () => leftOut++)) groups++;
  const rest = groups - steps * groupsPerStep;
  if (rest === 0) return null;
  if (rest > 0) {
    const remedy = rest >= groupsPerStep ? 'raise --steps' : `with a number of groups per step (-n) that divides ${groups}, none is left over`;
    return `${countText(rest)} of the ${countText(groups)} groups of rollouts in ${options.name} ${rest === 1 ? 'is' : 'are'} not used: ${steps === 1 ? 'one step takes' : `${countText(steps)} steps take`} ${countText(steps * groupsPerStep)}; ${remedy}`;
  }
  throw new ConfigError(
    `${options.name} has too few groups of rollouts for --steps ${steps}: ${groups}${leftOutText(leftOut)}, and a step takes ${groupsPerStep}; lower --steps, or give more rollouts`,
  );
}

export function leftOutText(leftOut: number): string {
  if (leftOut === 0) return '';
  const which =
    leftOut === 1
      ? "1 rollout that is longer than the model's window or was"
      : `${countText(leftOut)} rollouts that are longer than the model's window or were`;
  return `, without ${which} never played`;
}

function leftOutBecause({ targets, stop }: Trajectory, isLong: boolean): LeftOut | null {
  if (stop === 'prompt_too_long' && targets.length === 0) return 'unplayed';
  return isLong ? 'long' : null;
}

function parsed(text: string, place: string): RolloutExport {
  const wire = parseWire(RolloutExportSchema, text);
  const problem = 'problem' in wire ? wire.problem : exportProblem(wire.value);
  if ('value' in wire && problem === null) return wire.value;
  throw new ConfigError(`${place} is not a rollout in the form of vf-export: ${problem} (docs/results.md describes it)`);
}
