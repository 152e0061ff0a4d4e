/** The `vf-view` command: serves a page that shows runs. */
import { once } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { Command } from 'commander';
import { ConfigError } from '../core/errors.ts';
import { packageVersion } from '../data/package-root.ts';
import { type CommandContext, EXIT, runCommand } from './command-line.ts';
import { plural } from '../reports/text/number-text.ts';
import { parseProgram } from './parse-program.ts';
import type { OpenedView } from './view/open-view.ts';
import { named, wholeNumber } from './serve/option-values.ts';

const HELP = `
  vf-view                            every run below ./outputs
  vf-view outputs/evals/search-r1--base/1a2b    one run
  vf-view --open                     also opens the browser
  vf-view runs/ --port 0             another folder, on any free port
  vf-view RUN --export run.html      one file to send: it opens from disk,
                                     without vf-view and without network
  vf-view --host 0.0.0.0             for other machines: the address that is
                                     printed holds a token
  vf-view --lab                      a page that trains a small model in a
                                     browser tab; no run is needed

The page of an evaluation has figures with intervals, a table of rollouts to
sort, filter and search, and each rollout with who wrote what, rewards, and
every token with its log-prob. The page of a training run, also while it trains,
has curves, the groups of each step with rewards and advantages, and each
held-out question over time. Runs can be compared side by side. vf-view reads
the files of the runs and changes nothing. Ctrl-C ends it.
docs/viewing.md says more.`;

interface Flags {
  readonly host: string;
  readonly port: number;
  readonly open?: boolean;
  readonly export?: string;
  readonly tokenizer?: string;
  readonly lab?: boolean;
  readonly verbose?: boolean;
}

const DEFAULT_FOLDER = './outputs';

async function main(argv: readonly string[], context: CommandContext): Promise<number> {
  const program = new Command('vf-view')
    .description('Shows runs of vf-eval and vf-train in a web page.')
    .argument('[directory]', 'a folder with runs, or one run', DEFAULT_FOLDER)
    .option(
      '--host <address>',
      'address to listen on; anything but loopback is open to the network and needs the token that is printed',
      named,
      '127.0.0.1',
    )
    .option('--port <n>', 'port to listen on; 0 picks any free one', wholeNumber(0, 65_535), 8765)
    .option('--export <file>', 'write the runs as one HTML file instead of serving them; - is stdout', named)
    .option('--open', 'open the address in the browser')
    .option('--tokenizer <directory>', "tokenizer to show tokens with (default: the run's own model, if it is on this machine)", named)
    .option('--lab', 'serve the lab instead: GRPO in a browser tab, with transcripts before and after (docs/lab.md)')
    .option('-v, --verbose', 'stack traces of failures')
    .version(packageVersion(), '-V, --version')
    .addHelpText('after', HELP);
  // Without arguments it shows the default folder, not its help.
  const code = parseProgram(program, argv.length === 0 ? [DEFAULT_FOLDER] : argv);
  if (code !== null) return code;
  const flags = program.opts<Flags>();
  context.verbose = flags.verbose === true;
  if (flags.lab === true) return await lab(flags, program.args[0], context);
  const { host, port, open = false, tokenizer, export: file } = flags;
  const folder = program.args[0] ?? DEFAULT_FOLDER;
  if (file !== undefined && open) throw new ConfigError('--export writes a file and serves no page, so --open has no use; leave one of the two out');
  // Otherwise V8 keeps the short-lived objects of 100,000 rollouts so long that they take another 100 MB.
  setFlagsFromString('--semi-space-growth-factor=1');
  const { openView } = await import('./view/open-view.ts');
  const view = await openView({ folder, tokenizer });
  if (file !== undefined) return await writeExport(view, file, context);
  const { serveView } = await import('./view/serve-view.ts');
  await using server = await serveView({ ...view, host, port }, context);
  return await serveUntilInterrupt(server.address, { open, note: `${plural(view.runs.length, 'run')} below ${folder}` }, context);
}

async function lab(
  { host, port, open = false, export: file, tokenizer }: Flags,
  folder: string | undefined,
  context: CommandContext,
): Promise<number> {
  for (const [flag, value] of Object.entries({ '--export': file, '--tokenizer': tokenizer }))
    if (value !== undefined) throw new ConfigError(`--lab shows no runs, so ${flag} ${value} has no use; leave one of the two out`);
  if (folder !== undefined) throw new ConfigError(`--lab shows no runs, so ${folder} has no use; leave it out`);
  const { serveLab } = await import('./view/serve-lab.ts');
  await using server = await serveLab({ host, port }, context);
  return await serveUntilInterrupt(server.address, { open, note: 'the lab trains in your browser' }, context);
}

async function serveUntilInterrupt(
  address: string,
  { open, note }: { readonly open: boolean; readonly note: string },
  context: CommandContext,
): Promise<number> {
  context.interruptIsEnd = true;
  context.onInterrupt = () => {};
  process.stdout.write(`${address}\n`);
  context.note(`vf-view: ${note}; Ctrl-C ends`);
  if (open) (await import('./view/open-browser.ts')).openBrowser(address, context);
  if (!context.signal.aborted) await once(context.signal, 'abort');
  return EXIT.done;
}

async function writeExport(view: OpenedView, file: string, context: CommandContext): Promise<number> {
  const { exportFile } = await import('./view/export-file.ts');
  const { bytes, leftOut } = await exportFile(view, { file }, context);
  const isStdout = file === '-';
  if (!isStdout) process.stdout.write(`${file}\n`);
  for (const line of leftOut) context.note(`vf-view: left out: ${line}`);
  context.note(
    `vf-view: ${plural(view.runs.length, 'run')} in ${(bytes / 1e6).toFixed(1)} MB${isStdout ? ' written to stdout' : '; open the file in a browser'}`,
  );
  return EXIT.done;
}

await runCommand('vf-view', main);
