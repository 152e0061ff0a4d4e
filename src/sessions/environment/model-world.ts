/** The small model of an environment. A model that knows a single world gets questions about that world unless the user names others. */
import { existsSync, realpathSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { installedModels } from '../../data/bundled-models.ts';
import type { FindEnvironmentOptions } from '../../registry/find-environment.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import { LAPTOP, ownPreset } from './presets.ts';

export interface ModelWorld {
  /** Default arguments of the environment; given ones override them. */
  readonly args: Readonly<Record<string, unknown>>;
  /** Notice for the user. */
  readonly notice: string;
}

/** Each of these sets the source of questions or passages. */
const DATA_ARGUMENTS = ['dataset', 'corpus', 'retriever_url', 'retrieverUrl', 'engine', 'keywords'];

type Arguments = Readonly<Record<string, unknown>>;

export interface ModelWorldOptions extends FindEnvironmentOptions {
  readonly environmentId: string;
  /** The given arguments of the environment. */
  readonly args: Arguments;
  /** The setting that chooses other questions, in the caller's words. @default the argument dataset */
  readonly choose?: string;
}

/** The model of the environment's own preset `laptop`, by its bundled name or path; null if it brings none. */
export function laptopModel(environmentId: string, options: FindEnvironmentOptions = {}): string | null {
  return ownLaptop(environmentId, options)?.model ?? null;
}

/**
 * Null if the model is not that of the environment's preset `laptop`, or knows more than one world. If the arguments name other data, `args` is empty and the
 * notice names the world that the model knows.
 */
export function modelWorld(
  modelDirectory: string,
  { environmentId, args, choose = 'the argument dataset', ...options }: ModelWorldOptions,
): ModelWorld | null {
  const { model, world } = ownLaptop(environmentId, options) ?? { model: null, world: {} };
  if (model === null || Object.keys(world).length === 0 || !isSameFolder(installedModels().get(model) ?? model, modelDirectory)) return null;
  const name = basename(resolve(modelDirectory));
  const isGiven = (key: string) => (args[key] ?? null) !== null;
  if (DATA_ARGUMENTS.some((key) => isGiven(key) && args[key] !== world[key])) {
    return { args: {}, notice: `${name} knows only the world of the preset ${LAPTOP} (${listed(world)}), and the arguments name other data.` };
  }
  const added = Object.fromEntries(Object.entries(world).filter(([key]) => !isGiven(key)));
  if (Object.keys(added).length === 0) return null;
  return { args: added, notice: `${name} knows only the world of the preset ${LAPTOP}, so ${listed(added)}; ${choose} chooses other questions.` };
}

function listed(args: Arguments): string {
  return Object.entries(args)
    .map(([key, value]) => `${key} = ${JSON.stringify(value)}`)
    .join(', ');
}

function isSameFolder(one: string, other: string): boolean {
  return existsSync(one) && existsSync(other) && realpathSync(one) === realpathSync(other);
}

function ownLaptop(environmentId: string, options: FindEnvironmentOptions): { readonly model: string | null; readonly world: Arguments } | null {
  const preset = ownPreset(LAPTOP, environmentId, options);
  if (preset === null) return null;
  const path = fieldsOf(preset.table['model'])['path'];
  return { model: typeof path === 'string' ? path : null, world: preset.world };
}
