/** The `vf-train` command. Handles help, version and wrong arguments before loading anything heavy. */
import { packageVersion } from '../data/package-root.ts';
import { asksForStacks, type CommandContext, EXIT, runCommand } from './command-line.ts';
import { parseTrainArguments } from './train/arguments.ts';
import { configHelpText, presetsText } from './train/config-help.ts';

async function main(argv: readonly string[], context: CommandContext): Promise<number> {
  context.verbose = asksForStacks(argv);
  const parsed = parseTrainArguments(argv, packageVersion());
  if (parsed.kind === 'printed') return parsed.exitCode;
  if (parsed.kind !== 'train') {
    process.stdout.write(parsed.kind === 'list-presets' ? presetsText(parsed.environment) : configHelpText());
    return EXIT.done;
  }
  const { runTrain } = await import('./train/run-train.ts');
  return runTrain(parsed, context);
}

await runCommand('vf-train', main);
