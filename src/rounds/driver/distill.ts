/** The work of `vf-rounds extract`, `vet`, `rewrite` and `finalize`. */
import { readTextFile } from '../../files/json-file.ts';
import { askRows } from '../ask-rows.ts';
import { readDemonstrationRows } from '../demonstration-rows.ts';
import { type ExtractOptions, extractStage, rareSuccesses } from '../extract-stage.ts';
import { finalizeStage } from '../finalize-stage.ts';
import { readTraces } from '../read-traces.ts';
import { givenRewrites, isSpoiled, rewriteQuestion, rewriteStage } from '../rewrite-stage.ts';
import type { HashedInput } from '../stage-files.ts';
import { vetQuestion, vetStage } from '../vet-stage.ts';
import type { StageContext } from './round-commands.ts';
import { fileTarget, inputsOf, pathsOf, progressNote, runStage } from './run-stage.ts';
import { openStageModel, type RoleOptions } from './stage-model.ts';

type Inputs = readonly HashedInput[];

interface ExtractWork extends Omit<ExtractOptions, 'systemPrompt'> {
  /** Paths of `trace.jsonl`. */
  readonly trace: readonly string[];
  /** File of a system prompt. @default none */
  readonly system?: string;
}

interface RewriteWork extends RoleOptions {
  /** Rewrites that were made elsewhere. @default those of a model */
  readonly rewritten?: string;
}

interface FinalizeWork {
  readonly output: string;
  /** Most rows of a prompt. */
  readonly most: number;
  /** Most failed tools in a row. */
  readonly systemErrors: number;
}

export async function extract({ trace, output, system, ...flags }: ExtractWork, context: StageContext): Promise<void> {
  const target = fileTarget('extract', output);
  const work = async (inputs: Inputs) => {
    const paths = pathsOf(inputs, 'trace');
    const systemPrompt = system === undefined ? {} : { systemPrompt: (await readTextFile(system)).replace(/\n$/, '') };
    const options = { ...flags, ...systemPrompt, output: target.file };
    // Reads twice, so that only the texts of selected prompts are in memory.
    const kept = rareSuccesses((await readTraces(paths, { withTexts: false })).rollouts, options);
    const prompts = new Set(kept.map(({ prompt }) => prompt));
    const traces = await readTraces(paths, { withTexts: (prompt) => prompts.has(prompt) });
    return extractStage(traces, rareSuccesses(traces.rollouts, options), options);
  };
  const inputs = [...inputsOf('trace', trace), ...inputsOf('system', system === undefined ? [] : [system])];
  return runStage({ target, inputs, work }, context);
}

export async function vet(paths: readonly string[], options: RoleOptions, context: StageContext): Promise<void> {
  const target = fileTarget('vet', options.output, ['vetted']);
  const work = async (inputs: Inputs) => {
    const rows = await readDemonstrationRows(pathsOf(inputs, 'rows'));
    await using opened = await openStageModel('vetter', options, context);
    const vettings = await askRows(rows.map(vetQuestion), { ...opened, onAnswer: progressNote('vet', context) });
    return vetStage(rows, vettings, { vetter: opened.model.name, output: target.file, report: target.others[0]! });
  };
  return runStage({ target, inputs: inputsOf('rows', paths), work }, context);
}

export async function rewrite(paths: readonly string[], options: RewriteWork, context: StageContext): Promise<void> {
  const target = fileTarget('rewrite', options.output);
  const { rewritten } = options;
  const work = async (inputs: Inputs) => {
    const rows = await readDemonstrationRows(pathsOf(inputs, 'rows'));
    const clean = rows.filter((row) => !isSpoiled(row));
    if (rewritten !== undefined) {
      const given = givenRewrites(rows, await readDemonstrationRows([rewritten])).filter((_, i) => !isSpoiled(rows[i]!));
      return rewriteStage(rows, given, { rewriter: 'given', output: target.file });
    }
    await using opened = await openStageModel('rewriter', options, context);
    const rewrites = await askRows(clean.map(rewriteQuestion), { ...opened, onAnswer: progressNote('rewrite', context) });
    return rewriteStage(rows, rewrites, { rewriter: opened.model.name, output: target.file });
  };
  const inputs = [...inputsOf('rows', paths), ...inputsOf('rewritten', rewritten === undefined ? [] : [rewritten])];
  return runStage({ target, inputs, work }, context);
}

export async function finalize(paths: readonly string[], { output, most, systemErrors }: FinalizeWork, context: StageContext): Promise<void> {
  const target = fileTarget('finalize', output, ['golden']);
  const work = async (inputs: Inputs) =>
    finalizeStage(await readDemonstrationRows(pathsOf(inputs, 'rows')), { most, systemErrors, output: target.file, golden: target.others[0]! });
  return runStage({ target, inputs: inputsOf('rows', paths), work }, context);
}
