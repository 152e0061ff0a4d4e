/** The work of `vf-rounds extract`, `vet`, `rewrite` and `finalize`. */
import { readTextFile } from '../../files/read-document.ts';
import { askRows } from '../../rounds/ask-rows.ts';
import { readDemonstrationRows } from '../../rounds/demonstration-rows.ts';
import { extractStage, rareSuccesses } from '../../rounds/extract-stage.ts';
import { finalizeStage } from '../../rounds/finalize-stage.ts';
import { readTraces } from '../../rounds/read-traces.ts';
import { givenRewrites, isSpoiled, rewriteQuestion, rewriteStage } from '../../rounds/rewrite-stage.ts';
import type { HashedInput } from '../../rounds/stage-files.ts';
import { vetQuestion, vetStage } from '../../rounds/vet-stage.ts';
import type { CommandContext } from '../command-line.ts';
import type { ExtractOptions, FinalizeOptions, RewriteOptions, VetOptions } from './distill-commands.ts';
import { fileTarget, inputsOf, pathsOf, progressNote, runStage } from './stage-command.ts';
import { openStageModel } from './stage-model.ts';

type Inputs = readonly HashedInput[];

export async function extract({ trace, output, system, ...flags }: ExtractOptions, context: CommandContext): Promise<number> {
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

export async function vet(paths: readonly string[], options: VetOptions, context: CommandContext): Promise<number> {
  const target = fileTarget('vet', options.output, ['vetted']);
  const work = async (inputs: Inputs) => {
    const rows = await readDemonstrationRows(pathsOf(inputs, 'rows'));
    await using opened = await openStageModel('vetter', options, context);
    const vettings = await askRows(rows.map(vetQuestion), { ...opened, onAnswer: progressNote('vet', context) });
    return vetStage(rows, vettings, { vetter: opened.model.name, output: target.file, report: target.others[0]! });
  };
  return runStage({ target, inputs: inputsOf('rows', paths), work }, context);
}

export async function rewrite(paths: readonly string[], options: RewriteOptions, context: CommandContext): Promise<number> {
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

export async function finalize(paths: readonly string[], { output, most, systemErrors }: FinalizeOptions, context: CommandContext): Promise<number> {
  const target = fileTarget('finalize', output, ['golden']);
  const work = async (inputs: Inputs) =>
    finalizeStage(await readDemonstrationRows(pathsOf(inputs, 'rows')), { most, systemErrors, output: target.file, golden: target.others[0]! });
  return runStage({ target, inputs: inputsOf('rows', paths), work }, context);
}
