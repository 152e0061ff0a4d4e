/**
 * The configuration of a run for people on other machines. Its settings stay; the paths of this machine become names that are valid elsewhere: names of bundled models, hub
 * ids, paths below the working directory, else the last part of the path.
 */
import { existsSync } from 'node:fs';
import { basename, isAbsolute, relative } from 'node:path';
import { bundledName } from '../../data/bundled-models.ts';
import { baseName } from '../../engine/adapters/base-name.ts';
import type { TrainingConfigWire } from '../../schemas/training-config.ts';
import { defaultRunName, givenRunName } from '../../schemas/run-name.ts';
import { mapStrings } from '../../transport/redact.ts';

/** @param redact removes secrets and addresses from a text */
export function publishedConfig(wire: TrainingConfigWire, redact: (text: string) => string): TrainingConfigWire {
  const { environment, model, name, policy, backend } = wire;
  // Arguments of the environment may hold text that looks like a path, so only a path that exists here counts as one.
  const shown = mapStrings(wire, (text) => redact(isAbsolute(text) && existsSync(text) ? nearPath(text) : text));
  const path = bundledName(model.path) ?? nearPath(baseName(model.path));
  // A default name follows from the path.
  const isDefault = givenRunName(name, environment.id, model.path) === null;
  return {
    ...shown,
    output_dir: 'outputs',
    model: { ...shown.model, path },
    policy: { ...shown.policy, launch: policy.launch === null ? null : { ...shown.policy.launch!, python: PYTHON } },
    backend: { ...shown.backend, python: backend.kind === 'torch' ? PYTHON : shown.backend.python },
    ...(isDefault ? { name: defaultRunName(shown.environment.id, path) } : {}),
  };
}

const PYTHON = 'python3';

/** Of a path outside the working directory, only the name is meaningful elsewhere. */
function nearPath(path: string): string {
  const near = isAbsolute(path) ? relative('', path) : path;
  return near === '' || near.startsWith('..') || isAbsolute(near) ? basename(path) : near;
}
