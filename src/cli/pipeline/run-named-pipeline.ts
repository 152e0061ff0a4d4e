/** `vf-pipeline run`. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CancelledError, ConfigError } from '../../core/errors.ts';
import { chunked, jsonPieces, replaceFile } from '../../files/json-lines.ts';
import { makeFolder } from '../../files/make-folder.ts';
import { lockRun } from '../../files/run-lock.ts';
import { JournalFile } from '../../pipelines/call-journal.ts';
import { PipelineError, PipelineFileError } from '../../pipelines/pipeline-error.ts';
import type { FinishedCall, PipelineResult } from '../../pipelines/run-pipeline.ts';
import { isObject } from '../../schemas/is-object.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { durationText, meanText, plural } from '../../reports/text/number-text.ts';
import { ownCommand } from '../../reports/text/own-command.ts';
import { placeError } from '../../files/place-error.ts';
import { keepHeapSmall } from '../../sessions/engine/spare-memory.ts';
import { escapeControls, jsonLine, printable } from '../../reports/text/terminal-text.ts';
import { findPipeline } from '../../registry/find-pipeline.ts';
import { noteBundled, openNamedPipeline } from './open-named-pipeline.ts';
import type { PipelineRunOptions } from '../commands/vf-pipeline.ts';
import { CALLS_FILE, RESULT_FILE, runFolder } from '../../pipelines/run-folder.ts';

export async function runNamedPipeline(named: string, flags: PipelineRunOptions, context: CommandContext): Promise<number> {
  keepHeapSmall();
  const { path, isBundled } = findPipeline(named);
  if (isBundled) noteBundled(named, 'running', context);
  await using pipeline = await openNamedPipeline(path, { ...flags, startServers: true }, context);
  for (const warning of await pipeline.check(context.signal)) context.note(`vf-pipeline: ${escapeControls(warning)}`);
  const { folder, resume } = await runFolder({ output: flags.outputDir, resume: flags.resume, pipeline: named, header: pipeline.header() });
  if (resume && !existsSync(join(folder, CALLS_FILE)))
    throw new ConfigError(`${folder} holds no run to resume: it has no ${CALLS_FILE}. Start a new run without -R.`);
  if (flags.resume === true && !resume) context.note('vf-pipeline: found no incomplete run of the same pipeline and parameters; starting a new one');
  try {
    makeFolder(folder);
  } catch (error) {
    throw placeError(error, { flag: '-o', path: folder });
  }
  await using _ = await lockRun(folder);
  await using journal = await JournalFile.open(join(folder, CALLS_FILE), pipeline.header(), { resume });
  if (resume) context.note(`vf-pipeline: continuing after ${plural(journal.size, 'complete call')} in ${folder}`);
  const startedAt = performance.now();
  let result: PipelineResult;
  try {
    result = await pipeline.run({ journal, signal: context.signal, isChecked: true, onCall: (call) => noteCall(call, startedAt, context) });
  } catch (error) {
    if (!mayPass(error)) throw error;
    if (!(context.signal.aborted && error instanceof CancelledError)) context.report(error);
    const again = ownCommand('vf-pipeline', [
      'run',
      named,
      ...(flags.set ?? []).flatMap((text) => ['--set', text]),
      ...(flags.tools ? ['--tools', flags.tools] : []),
      '-R',
      folder,
    ]);
    context.note(`vf-pipeline: every complete call is kept; to continue: ${again}`);
    return error instanceof ConfigError ? EXIT.usage : EXIT.failed;
  }
  for (const { router, place, state, rounds } of result.unstopped)
    context.note(
      `vf-pipeline: ${escapeControls(router)} (step ${escapeControls(place)}) never said ${escapeControls(state)}: every question went through all ${rounds} rounds of the loop`,
    );
  await replaceFile(join(folder, RESULT_FILE), async (write) => {
    for (const bytes of chunked(resultPieces(result))) await write(bytes);
  });
  context.saved = folder;
  if (flags.json) process.stdout.write(jsonLine(resultRecord(result)));
  else process.stdout.write(printable(summary(result, folder)));
  return EXIT.done;
}

/** Tells whether the same run may succeed later: a tool that returns a wrong value does so again. */
function mayPass(error: unknown): boolean {
  return error instanceof PipelineError ? error.failure === 'failed' : !(error instanceof PipelineFileError);
}

function noteCall({ name, number, place, questions, isRecorded }: FinishedCall, startedAt: number, context: CommandContext): void {
  if (isRecorded) return;
  const about = questions === null ? '' : `, ${plural(questions, 'question')}`;
  context.note(
    `vf-pipeline: ${durationText((performance.now() - startedAt) / 1000)}  call ${number}: ${escapeControls(name)} (step ${escapeControls(place)})${about}`,
  );
}

function resultRecord({ variables, questions, failed, calls }: PipelineResult): Record<string, unknown> {
  const failures = [...failed].map(([question, reason]) => ({ question, reason }));
  return { questions, failed: failures, calls, variables };
}

function* resultPieces({ variables, ...result }: PipelineResult): Generator<string> {
  yield JSON.stringify(resultRecord({ ...result, variables: {} })).replace(/\{\}\}$/, '');
  yield* jsonPieces(variables);
  yield '}';
}

function summary({ variables, questions, failed, calls }: PipelineResult, folder: string): string {
  const means = Object.values(variables).flatMap((value) => (isObject(value) ? Object.entries(value) : []));
  const lines = means.flatMap(([name, mean]) =>
    name.startsWith('avg_') && typeof mean === 'number' ? [`${name.slice(4).padEnd(12)}${meanText(mean)}`] : [],
  );
  const asked = questions === null ? '' : `${plural(questions, 'question')}, `;
  const lost = failed.size === 0 ? '' : `, ${failed.size} failed and in no mean: ${escapeControls([...failed.values()][0]!)}`;
  return [...lines, `${asked}${plural(calls, 'call')}${lost}`, `Files: ${folder}`, ''].join('\n');
}
