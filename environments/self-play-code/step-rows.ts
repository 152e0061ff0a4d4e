/** The rows of a step's phases. All of them are functions of the step, the seed and the buffer, so a resumed step has the same rows. */
import type { Random } from 'vf-search';
import type { BufferMix, ProgramBuffer } from './buffer.ts';
import type { Proposal } from './proposals.ts';
import { IDENTITY, type IoRecord, type TaskKind, type TaskRecord } from './records.ts';
import { type PromptSettings, proposeRow, solveRow, type TaskRow } from './task-rows.ts';

export interface ProposePlan {
  readonly step: number;
  readonly kinds: readonly TaskKind[];
  /** Proposals of each kind. */
  readonly count: number;
  /** Earlier programs in each prompt. */
  readonly references: number;
  readonly random: Random;
}

export interface PlannedProposal {
  readonly row: TaskRow;
  /** Programs that its prompt shows. */
  readonly references: readonly IoRecord[];
}

export function planProposals(
  buffer: ProgramBuffer,
  { step, kinds, count, references, random }: ProposePlan,
  settings: PromptSettings,
): PlannedProposal[] {
  return kinds.flatMap((kind) => {
    const described = kind === 'code_f' ? describedPrograms(buffer, count, random) : null;
    return Array.from({ length: count }, (_, i) => {
      const program = described === null ? null : described[i]!;
      const shown = kind === 'code_f' || references === 0 ? [] : buffer.programs(references, random);
      return { row: proposeRow(`propose-${step}-${kind}-${i}`, { kind, program, references: shown }, settings), references: shown };
    });
  });
}

/** Different programs, as long as there are enough. */
function describedPrograms(buffer: ProgramBuffer, count: number, random: Random): string[] {
  const known = buffer.programs(count, random).map(({ snippet }) => snippet);
  const programs = known.length === 0 ? [IDENTITY.snippet] : known;
  return Array.from({ length: count }, (_, i) => programs[i % programs.length]!);
}

/** One row for each valid proposal, in order. */
export function probeRows(proposals: readonly Proposal[], settings: PromptSettings): TaskRow[] {
  return proposals.flatMap(({ id, result }) => (result.kind === 'valid' ? [solveRow(`solve-${id}`, result.record, settings)] : []));
}

export interface ReplayPlan {
  readonly step: number;
  readonly kinds: readonly TaskKind[];
  /** Tasks of each kind. */
  readonly count: number;
  readonly mix: BufferMix;
  /** Programs of this step and later are new. */
  readonly newSince: number;
  /** Programs of this step and later take no part. */
  readonly before: number;
  readonly random: Random;
}

/** Tasks from the buffer; the identity program, as an output task, if it has none. */
export function replayRows(buffer: ProgramBuffer, { step, kinds, ...plan }: ReplayPlan, settings: PromptSettings): TaskRow[] {
  const drawn = kinds.flatMap((kind) => buffer.draw({ kind, ...plan }));
  const records: readonly TaskRecord[] = drawn.length === 0 ? [{ kind: 'code_o', ...IDENTITY, imports: [] }] : drawn;
  return records.map((record, i) => solveRow(`replay-${step}-${record.kind}-${i}`, record, settings));
}
