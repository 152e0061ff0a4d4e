/** The `vf-eval` command. Handles help, version and wrong arguments before loading anything heavy. */
import { styleText } from 'node:util';
import { packageVersion } from '../data/package-root.ts';
import { asksForStacks, type CommandContext, EXIT, runCommand } from './command-line.ts';
import { parseArguments } from './eval/arguments.ts';
import { renderHelp } from './eval/help.ts';

async function main(argv: readonly string[], context: CommandContext): Promise<number> {
  // Set before parsing, so that -v also shows the stack of a parsing error.
  context.verbose = asksForStacks(argv);
  const parsed = parseArguments(argv);
  const { target, settings, given } = parsed;
  if (settings.help || (target === null && given.length === 0)) {
    const styled = !settings.plain && settings.help;
    const text = renderHelp((heading) => (styled ? styleText('bold', heading, { stream: process.stdout }) : heading));
    (settings.help ? process.stdout : process.stderr).write(text);
    return settings.help ? EXIT.done : EXIT.usage;
  }
  if (settings.version) {
    process.stdout.write(`${packageVersion()}\n`);
    return EXIT.done;
  }
  const { runEvaluations } = await import('./eval/run-evaluations.ts');
  return runEvaluations({ arguments: parsed, context, packageVersion: packageVersion() });
}

await runCommand('vf-eval', main);
