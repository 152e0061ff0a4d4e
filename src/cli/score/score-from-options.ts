/** `vf-score`: scores a run according to its options, and prints the changes. */
import { isAbsolute, relative, resolve } from 'node:path';
import { loadEnvironmentFile } from '../../sessions/environment/environment-file.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import type { ScoreValues } from '../commands/vf-score.ts';
import { runScoring, type ScoringSurroundings } from '../../sessions/scoring/run-scoring.ts';
import { scoredJson, scoredText } from '../../reports/evaluation/scored-text.ts';
import { displayPath } from '../../reports/text/own-command.ts';
import { jsonLine, printable } from '../../reports/text/terminal-text.ts';

export async function scoreFromOptions(directory: string, options: ScoreValues, context: CommandContext): Promise<number> {
  const run = directory.replace(/(?<=.)\/+$/, '');
  loadEnvironmentFile('.env', process.env);
  context.onInterrupt = () => context.note('stopping; the same command continues from here');
  const scored = await runScoring(
    run,
    {
      output: options.inPlace === true ? null : { path: options.output ?? scoredName(run), isNamed: options.output !== undefined },
      failed: options.failed ?? false,
      rubric: options.rubric ?? null,
      weights: options.weight ?? {},
      args: options.envArgs ?? {},
      roles: options.role ?? {},
      askAgain: options.askAgain ?? false,
      environment: options.env ?? null,
      environmentsDir: options.envDirPath ?? 'environments',
      endpointsPath: options.endpointsPath ?? null,
      maxScoring: options.maxScoring,
      scoringTimeout: options.scoringTimeout,
    },
    { ...context, warn: (line) => context.note(`vf-score: ${line}`), onProgress: progressLines(context) },
  );
  context.saved = displayPath(scored.directory);
  process.stdout.write(context.redact(options.json === true ? jsonLine(scoredJson(scored)) : printable(scoredText(scored))));
  const { isReplaced, failures, scored: count } = scored.result;
  return !isReplaced || (count === 0 && failures.length > 0) ? EXIT.failed : EXIT.done;
}

/** Next to the run, which may be named as "."; the name for an evaluation of a training run is next to the training run. */
function scoredName(run: string): string {
  const path = resolve(run);
  const [, training, step] = /^(.+)\/evaluations\/(step-\d+)\.jsonl$/.exec(path) ?? [];
  const name = training === undefined ? `${path}-scored` : `${training}-${step}-scored`;
  return isAbsolute(run) ? name : relative('', name);
}

const PROGRESS_MS = 5000;

function progressLines(context: CommandContext): ScoringSurroundings['onProgress'] {
  let shownMs = performance.now();
  return ({ done, total, failed }) => {
    if (performance.now() - shownMs < PROGRESS_MS) return;
    shownMs = performance.now();
    context.note(`${done}/${total} rollouts scored${failed === 0 ? '' : `, ${failed} could not be`}`);
  };
}
