/** The commands that follow `vf-seed`: the supervised steps that make an adapter, and a run that starts from it. */
import { bundledName } from '../../data/bundled-models.ts';
import { ownCommand } from '../text/own-command.ts';

export interface SeedCommandsOptions {
  /** The file that was written. */
  readonly file: string;
  readonly rows: number;
  /** The value of -m; null if it was not given. */
  readonly model: string | null;
  /** The model's directory; null if none was given. */
  readonly modelFolder: string | null;
  /** Id of the environment that the later run plays. */
  readonly environment: string;
}

/** A validation loss on fewer rows is meaningless. */
const LEAST_FOR_VALIDATION = 20;
/** The default of `sft.batch_size`; with fewer rows, a step would be smaller than it says. */
const BATCH_ROWS = 32;
/** Stands for the path that `vf-train` prints as `adapter` at the end. */
const ADAPTER = 'ADAPTER';

/** The loss is the mean over rows of their weighted sums, so that a long solution counts with each of its tokens. */
export function seedCommands({ file, rows, model, modelFolder, environment }: SeedCommandsOptions): { readonly train: string; readonly use: string } {
  const isBundled = modelFolder !== null && bundledName(modelFolder) !== null;
  const setting = (text: string) => ['--set', text];
  // A bundled model is trained with Node alone, and the adapter has the rank and alpha of the presets that continue from it.
  const here = isBundled ? ['--embedded', '--rank', '8', ...setting('lora.alpha=16')] : [];
  const laptop = isBundled ? ['--preset', 'laptop'] : [];
  const words = [environment, '-m', model ?? 'MODEL'];
  const validation = rows < LEAST_FOR_VALIDATION ? [] : setting('sft.held_out=0.1');
  const batch = rows < BATCH_ROWS ? setting(`sft.batch_size=${rows}`) : [];
  return {
    train: ownCommand('vf-train', [...words, '--sft', file, ...setting('sft.aggregation=sequence_mean_token_sum'), ...batch, ...validation, ...here]),
    use: ownCommand('vf-train', [...words, ...laptop, ...setting(`model.initial_adapter=${ADAPTER}`)]),
  };
}
