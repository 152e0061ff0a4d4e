/** Brings a model that is named by its id on the Hugging Face hub to this machine, with the base of an adapter. */
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suggestion } from '../../core/closest-name.ts';
import { ConfigError } from '../../core/errors.ts';
import { modelPath } from '../../data/bundled-models.ts';
import { cachedModel } from '../../data/cached-model.ts';
import { hubToken } from '../../data/hub-connection.ts';
import { hubCacheFolder } from '../../data/hub-cache.ts';
import { downloadedModel, fetchHubModel, type HubModelName, namesakeProblem, parseHubModel } from '../../data/hub-model.ts';
import { statIfThere } from '../../files/regular-file.ts';
import { adapterConfig } from '../../files/model-facts.ts';
import type { Surroundings } from '../surroundings.ts';
import { bytesText, plural } from '../../reports/text/number-text.ts';
import { checkModel } from '../engine/open-engine.ts';
import type { PolicySpec } from './policy-spec.ts';
import { EMBEDDED } from './providers.ts';

/**
 * `asked`: a directory, a bundled model, or `owner/name[@revision]`. Only the last becomes another path. Throws ConfigError for a model that is not available or
 * cannot be used.
 */
export async function localModel(asked: string, surroundings: Surroundings): Promise<string> {
  const hubModel = hubName(asked);
  if (hubModel === null) return asked;
  const { variables: env, secrets, signal, warn } = surroundings;
  const token = hubToken(env);
  if (token !== '') secrets.add(token);
  let isThere = false;
  const directory = await fetchHubModel(hubModel, {
    env,
    signal,
    check: async (folder) => {
      isThere = true;
      if (!existsSync(join(folder, 'adapter_config.json'))) await checkModel(folder);
    },
    onDownload: (files, bytes) => warn(`downloading ${asked} (${plural(files, 'file')}, ${bytesText(bytes)}) to ${hubCacheFolder(env)}`),
  }).catch((error: unknown) => {
    throw isThere || !(error instanceof ConfigError) ? error : neitherError(asked, error);
  });
  const base = baseElsewhere(directory, asked, env);
  if (base !== null) await localModel(base, surroundings);
  return directory;
}

/** The base of an adapter that only the hub has; else null. A base that is elsewhere on this machine is found later, as for any adapter. */
function baseElsewhere(directory: string, asked: string, env: Surroundings['variables']): string | null {
  const base = baseOf(directory);
  return base !== null && base !== asked && cachedModel(base, env) === null && parseHubModel(base) !== null ? base : null;
}

/** A model without a download, for a dry run. */
export type ModelHere =
  /** What `localModel` returns. */
  | { readonly path: string; readonly toDownload: null }
  /** The id on the hub of the first model that `localModel` would download. */
  | { readonly path: null; readonly toDownload: string };

export async function modelHere(asked: string, env: Surroundings['variables']): Promise<ModelHere> {
  const hubModel = hubName(asked);
  if (hubModel === null) return { path: asked, toDownload: null };
  const directory = await downloadedModel(hubModel, env);
  if (directory === null) return { path: null, toDownload: asked };
  const base = baseElsewhere(directory, asked, env);
  return base === null ? { path: directory, toDownload: null } : { path: null, toDownload: base };
}

/** The spec of a policy with the folder of a model in this process that it names by its id on the hub, downloaded if necessary. */
export async function localPolicy(spec: PolicySpec, surroundings: Surroundings): Promise<PolicySpec> {
  const { provider, model } = spec;
  return provider === EMBEDDED && model !== undefined ? { ...spec, model: await localModel(model, surroundings) } : spec;
}

/** The hub id of a model that is not a folder on this machine; null for a folder, and for text that cannot be a hub id. Throws ConfigError if a file or a pipe has that name. */
function hubName(asked: string): HubModelName | null {
  const name = isFolder(modelPath(asked)) ? null : parseHubModel(asked);
  const problem = name === null ? null : namesakeProblem(asked);
  if (problem !== null) throw new ConfigError(`${problem}. Give a folder, or the id of a model on the hub`);
  return name;
}

/** `owner/name` may also be meant as a folder of this machine whose name has a slip. */
function neitherError(asked: string, cause: ConfigError): ConfigError {
  const parent = dirname(asked);
  const siblings = isFolder(parent) ? readdirSync(parent).map((entry) => `${parent}/${entry}`) : [];
  return new ConfigError(`The folder ${asked} does not exist${suggestion(asked, siblings)}, so it was looked for on the hub. ${cause.message}`, {
    cause,
  });
}

/** The base that an adapter names, if that is neither a folder here nor a bundled model; null for a whole model. */
function baseOf(directory: string): string | null {
  const base = adapterConfig(directory)?.['base_model_name_or_path'];
  return typeof base !== 'string' || isFolder(base) || isFolder(modelPath(base.split('/').at(-1)!)) ? null : base;
}

function isFolder(path: string): boolean {
  return statIfThere(path)?.isDirectory() === true;
}
