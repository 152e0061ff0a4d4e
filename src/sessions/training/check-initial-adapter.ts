/** Checks the adapter that a run starts from, before a server or a worker is started, which may take minutes. */
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { assertStartAdapter } from '../../trainer/gradients/assert-start-adapter.ts';
import { modelFolder } from '../policy/model-folder.ts';
import { otherBaseNotice } from '../policy/adapter-of-another-base.ts';

export interface InitialAdapterOptions {
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Gets a line about an adapter of another base. */
  readonly warn: (line: string) => void;
}

/** Throws ConfigError if the run cannot start from its `model.initial_adapter`. */
export async function checkInitialAdapter({ model, lora }: Pick<TrainingConfig, 'model' | 'lora'>, { variables, warn }: InitialAdapterOptions) {
  if (model.initialAdapter === null) return;
  await assertStartAdapter(model.initialAdapter, lora, modelFolder(model.path, variables));
  const notice = await otherBaseNotice(model.initialAdapter, model.path, variables);
  if (notice !== null) warn(notice);
}
