/** The settings of `vf-train` that the specification's YAML stands for. */
import type { TrainingSettings } from 'vf-search';
import { crspOf } from './arguments.ts';
import { crspTrainingSettings } from './crsp-settings.ts';

/** Keys without a counterpart, and those of the environment itself, give no setting. */
export const trainingSettings: TrainingSettings = async (args) => {
  const read = await crspOf(args);
  return read === null ? [] : crspTrainingSettings(read.config, read.givenKeys);
};
