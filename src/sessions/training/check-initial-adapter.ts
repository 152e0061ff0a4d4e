/** Checks the adapter that a run starts from, before a server or a worker is started, which may take minutes. */
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { assertStartAdapter } from '../../trainer/gradients/assert-start-adapter.ts';
import { modelFolder } from '../policy/model-folder.ts';
import { otherBaseNotice } from '../policy/adapter-of-another-base.ts';

export interface CheckedAdapter {
  /** Its sizes were compared with those of the base, which is on this machine. */
  readonly isCompared: boolean;
  /** A line for the user if it names another base; null if it names the same one, or none. */
  readonly notice: string | null;
}

/** Null without a `model.initial_adapter`. Throws ConfigError if the run cannot start from it. */
export async function checkInitialAdapter(
  { model, lora }: Pick<TrainingConfig, 'model' | 'lora'>,
  variables: Readonly<Record<string, string | undefined>>,
): Promise<CheckedAdapter | null> {
  if (model.initialAdapter === null) return null;
  const isCompared = await assertStartAdapter(model.initialAdapter, lora, modelFolder(model.path, variables));
  return { isCompared, notice: await otherBaseNotice(model.initialAdapter, model.path, variables) };
}
