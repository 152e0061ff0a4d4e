/** The `vf-score` command: scores the rollouts of a run again, without playing any. */
import { isAbsolute, relative, resolve } from 'node:path';
import { Command } from 'commander';
import { ConfigError } from '../core/errors.ts';
import type { Weights } from '../core/weighted-rubric.ts';
import { packageVersion } from '../data/package-root.ts';
import { mergeRoleTables, type RoleTables } from '../schemas/roles-config.ts';
import { asksForStacks, type CommandContext, EXIT, runCommand } from './command-line.ts';
import { loadEnvironmentFile } from '../sessions/environment/environment-file.ts';
import { parseObject } from './eval/settings.ts';
import { parseProgram } from './parse-program.ts';
import { parseRoleFlag } from './roles/role-flag.ts';
import { parseWeight } from './score/score-settings.ts';
import { wholeNumber } from './serve/option-values.ts';

const HELP = `
Nothing is played: texts, final states and the replies of judges are on file. A
role is asked only where the record has no reply, or if --role names another
model than the run had. After an outage of a judge, this command asks it about
the rollouts that it missed, and leaves every other line of the run as it is:

  vf-score RUN --failed --in-place --role judge=NAME@https://host/v1

Another judge, other weights or another rubric make a new run beside the old:

  vf-score RUN --role judge=OTHER@https://host/v1
  vf-score RUN --weight format_valid=0.2 --weight search_r1=1
  vf-score RUN --rubric my-rubric.ts -o RUN-strict
  vf-compare RUN RUN-strict

A rubric is a module with export const rubric = new Rubric({ funcs: [...] }).
If vf-score is killed, the same command goes on from there. The files of the run
change only at the end, each by a rename. docs/score.md says more.`;

interface Flags {
  readonly output?: string;
  readonly inPlace?: boolean;
  readonly failed?: boolean;
  readonly rubric?: string;
  readonly weight?: Weights;
  readonly envArgs?: Readonly<Record<string, unknown>>;
  readonly role?: RoleTables;
  readonly askAgain?: boolean;
  readonly env?: string;
  readonly envDirPath: string;
  readonly endpointsPath?: string;
  readonly maxScoring: number;
  readonly scoringTimeout: number;
  readonly json?: boolean;
}

async function main(argv: readonly string[], context: CommandContext): Promise<number> {
  context.verbose = asksForStacks(argv);
  const program = new Command('vf-score')
    .description('Scores the rollouts of an evaluation again, without playing any.')
    .argument('<run directory>', 'the results folder that vf-eval printed, or T/evaluations/step-000010.jsonl of a training run T')
    .option('-o, --output <folder>', 'folder of the new run (default: RUN-scored)')
    .option('--in-place', 'change the run itself')
    .option('--failed', 'score only the rollouts whose rewards failed')
    .option('--rubric <file>', 'a module that exports another rubric')
    .option('--weight <name=number>', 'another weight of a reward or metric; may be repeated', parseWeight)
    .option('-a, --env-args <json>', "arguments of the environment over the run's own", (text: string) => parseObject(text, '-a'))
    .option('--role <role=model>', 'the model of a role, as in vf-eval; may be repeated', (text: string, before: RoleTables | undefined) =>
      mergeRoleTables(before ?? {}, parseRoleFlag(text, '--role')),
    )
    .option('--ask-again', 'ask models by role even where the record has their reply')
    .option('--env <id or path>', 'the environment to load (default: the one that the run names)')
    .option('--env-dir-path <folder>', 'folder of environments', 'environments')
    .option('-e, --endpoints-path <file>', 'registry of aliases for --role')
    .option('--max-scoring <n>', 'rollouts scored at once', wholeNumber(1, 100_000), 32)
    .option('--scoring-timeout <s>', 'seconds for the rewards of a rollout; 0: no limit', wholeNumber(0, 1e7), 0)
    .option('--json', 'print one JSON object')
    .option('-v, --verbose', 'show where an error was thrown')
    .version(packageVersion(), '-V, --version')
    .addHelpText('after', HELP);
  const code = parseProgram(program, argv);
  if (code !== null) return code;
  const run = program.args[0]!.replace(/(?<=.)\/+$/, '');
  const flags = program.opts<Flags>();
  if (flags.inPlace === true && flags.output !== undefined) throw new ConfigError('--in-place and -o exclude each other. Leave one out.');
  if (flags.output === '') throw new ConfigError('-o needs the name of a folder.');
  loadEnvironmentFile('.env', process.env);
  const [{ runScoring }, { scoredText, scoredJson }] = await Promise.all([import('./score/run-scoring.ts'), import('./score/scored-text.ts')]);
  const output = flags.inPlace === true ? null : { path: flags.output ?? scoredName(run), isNamed: flags.output !== undefined };
  context.onInterrupt = () => context.note('stopping; the same command goes on from here');
  const scored = await runScoring(
    run,
    {
      output,
      failed: flags.failed ?? false,
      rubric: flags.rubric ?? null,
      weights: flags.weight ?? {},
      args: flags.envArgs ?? {},
      roles: flags.role ?? {},
      askAgain: flags.askAgain ?? false,
      environment: flags.env ?? null,
      environmentsDir: flags.envDirPath,
      endpointsPath: flags.endpointsPath ?? null,
      maxScoring: flags.maxScoring,
      scoringTimeout: flags.scoringTimeout,
    },
    context,
  );
  process.stdout.write(context.redact(flags.json === true ? `${JSON.stringify(scoredJson(scored))}\n` : scoredText(scored)));
  const { isReplaced, failures, scored: count } = scored.result;
  return !isReplaced || (count === 0 && failures.length > 0) ? EXIT.failed : EXIT.done;
}

/** Beside the run, which may be named as "."; that of an evaluation of a training run beside the training run. */
function scoredName(run: string): string {
  const path = resolve(run);
  const [, training, step] = /^(.+)\/evaluations\/(step-\d+)\.jsonl$/.exec(path) ?? [];
  const name = training === undefined ? `${path}-scored` : `${training}-${step}-scored`;
  return isAbsolute(run) ? name : relative('', name);
}

await runCommand('vf-score', main);
