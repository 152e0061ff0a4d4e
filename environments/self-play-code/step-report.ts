/** The report of a self-play step: metrics, three programs as they grow harder, and the programs for the file of the run. */
import type { Solution } from './critics.ts';
import { mean, type ProbedProposal, type Proposal } from './proposals.ts';
import { learnability } from './rewards.ts';
import { statementCount } from './statement-count.ts';

type Values = Readonly<Record<string, number | null>>;

/** Names are documented in the environment's README. */
export function proposalValues(proposals: readonly Proposal[], valid: readonly ProbedProposal[], probes: readonly Solution[]): Values {
  const played = proposals.filter(({ result }) => result.kind !== 'failed');
  const scored = valid.filter(({ accuracies }) => accuracies.length > 0);
  const finished = probes.filter(({ trajectory }) => trajectory.error === null);
  const share = (part: readonly unknown[], whole: readonly unknown[]) => (whole.length === 0 ? null : part.length / whole.length);
  const average = (values: readonly number[]) => (values.length === 0 ? null : mean(values));
  return {
    'source/valid': share(valid, played),
    'source/statements': average(valid.map(({ result }) => statementCount(result.record))),
    'source/learnability': average(scored.map(({ accuracies }) => learnability(accuracies))),
    'source/own_accuracy': average(finished.map(({ accuracy }) => accuracy)),
    'source/distinct': share([...new Set(valid.map(({ result }) => result.record.snippet))], valid),
    'source/repeated': share(
      valid.filter(({ isRepeated }) => isRepeated),
      valid,
    ),
    'source/own_format': average(finished.map(({ isWellFormed }) => Number(isWellFormed))),
    'source/proposals': played.length,
    'source/held_out': proposals.filter(({ result }) => result.kind === 'held_out').length,
    'source/unprobed': valid.length - scored.length,
    ...invalidCounts(proposals),
  };
}

function invalidCounts(proposals: readonly Proposal[]): Values {
  const reasons = proposals.flatMap(({ result }) => (result.kind === 'invalid' ? [result.reason] : []));
  return Object.fromEntries([...Map.groupBy(reasons, (reason) => reason)].map(([reason, all]) => [`source/invalid/${reason}`, all.length]));
}

/** The number of times that examples are shown in a run. */
const SHOWN = 3;

/** One program at each of three points of the run (the first steps, the middle, the end): the one from which most can be learned. */
export function exampleNotes(step: number, valid: readonly ProbedProposal[], steps: number): string[] {
  const points = Array.from({ length: SHOWN }, (_, i) => 1 + Math.round((i * (steps - 1)) / (SHOWN - 1)));
  if (!points.includes(step)) return [];
  const worth = ({ accuracies }: ProbedProposal) => (accuracies.length === 0 ? -1 : learnability(accuracies));
  const best = valid.toSorted((a, b) => worth(b) - worth(a))[0];
  if (best === undefined) return [];
  const { record } = best.result;
  const call = record.kind === 'code_f' ? record.inputs[0]! : record.input;
  const output = record.kind === 'code_f' ? record.outputs[0]! : record.output;
  const solved = best.accuracies.length === 0 ? '' : `, solved by ${Math.round(100 * mean(best.accuracies))} %`;
  return [`Step ${step} proposes: ${oneLine(record.snippet)}  f(${oneLine(call)}) = ${oneLine(output)}  (${record.kind}${solved})`];
}

const LONGEST = 200;

function oneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, (space) => (space.includes('\n') ? ' ⏎ ' : space));
  return line.length > LONGEST ? `${line.slice(0, LONGEST)} …` : line;
}

/** Rows of `programs.jsonl`, in the form of the data sets that the environment reads. */
export function programRecords(valid: readonly ProbedProposal[]): Readonly<Record<string, unknown>>[] {
  return valid.map(({ id, result: { record }, accuracies, isRepeated }) => ({
    id,
    kind: record.kind,
    code: record.snippet,
    ...(record.kind === 'code_f'
      ? { inputs: record.inputs, outputs: record.outputs, message: record.message }
      : { input: record.input, output: record.output }),
    accuracy: accuracies.length === 0 ? null : mean(accuracies),
    repeated: isRepeated,
  }));
}
