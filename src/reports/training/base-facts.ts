/** Facts about an adapter's base model for its card: its place on the Hugging Face Hub, and its license. Reads only files of this machine. */
import { existsSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { bundledName } from '../../data/bundled-models.ts';
import { cachedModel } from '../../data/cached-model.ts';
import { parseHubModel } from '../../data/hub-model.ts';
import { cachedHubId } from '../../engine/adapters/base-name.ts';
import { modelFacts } from '../../files/model-facts.ts';
import { readRegularFileSync } from '../../files/regular-file.ts';

export interface BaseFacts {
  /** Name of the model for people. */
  readonly name: string;
  readonly isBundled: boolean;
  /** Null if it is not known: the hub refuses paths, and a wrong id would lead people to another model. */
  readonly hubId: string | null;
  /** From the base's own model card; null if that is not available, because only the base's owner knows it. */
  readonly license: BaseLicense | null;
  /** It has a vision tower. @default false */
  readonly sees?: boolean;
}

interface BaseLicense {
  /** The hub's identifier, such as `apache-2.0` or `other`. */
  readonly id: string;
  /** The name, if `id` is `other`. */
  readonly name: string | null;
  readonly link: string | null;
}

const HUB_ID = /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*$/;

/** `key: value`, the value in either quotes or plain, with a comment or without. */
const SCALAR = /^([a-z_]+):[ \t]+(?:"([^"]*)"|'([^']*)'|([^\s#"'[{|>&*](?:[^#]*[^# \t])?))[ \t]*(?:[ \t]#.*)?$/;

/** `path`: the base's directory or hub id. */
export function baseFacts(path: string, env: Readonly<Record<string, string | undefined>>): BaseFacts {
  const isHere = existsSync(path);
  const named = cachedHubId(path) ?? (isHere ? null : (parseHubModel(path)?.name ?? null));
  const folder = isHere ? path : cachedModel(named ?? path, env);
  const card = folder === null ? new Map<string, string>() : frontMatter(join(folder, 'README.md'));
  const isBundled = bundledName(path) !== null;
  const hubId = named ?? (!isBundled ? linkedHubId(card, basename(resolve(path))) : null);
  const sees = folder !== null && modelFacts(folder).seesImages;
  return { name: hubId?.split('/').at(-1) ?? basename(resolve(path)), isBundled, hubId, license: licenseOf(card, hubId), ...(sees ? { sees } : {}) };
}

/** A model that was downloaded into a folder of its own name: its card links the license in its repository on the hub. */
function linkedHubId(card: ReadonlyMap<string, string>, folderName: string): string | null {
  const id = /^https:\/\/huggingface\.co\/([\w.-]+\/[\w.-]+)\/(?:blob|resolve|raw)\//.exec(card.get('license_link') ?? '')?.[1];
  return id !== undefined && HUB_ID.test(id) && id.split('/')[1] === folderName ? id : null;
}

function licenseOf(card: ReadonlyMap<string, string>, hubId: string | null): BaseLicense | null {
  const id = card.get('license') ?? '';
  if (!/^[a-z0-9][a-z0-9.+-]*$/.test(id)) return null;
  const name = card.get('license_name') ?? '';
  const link = card.get('license_link') ?? '';
  const isUrl = /^https?:\/\/[^\s"'<>]+$/.test(link);
  const isFile = hubId !== null && /^[\w./-]+$/.test(link) && !link.startsWith('/');
  return {
    id,
    name: /^[A-Za-z0-9][\w.-]*$/.test(name) ? name : null,
    // A file next to the base's weights is not next to the adapter's.
    link: isUrl ? link : isFile ? `https://huggingface.co/${hubId}/blob/main/${link}` : null,
  };
}

/** The scalars at the top of a model card, by key; empty without a card. Lists and nested values are left out. */
function frontMatter(file: string): ReadonlyMap<string, string> {
  let text: string;
  try {
    text = readRegularFileSync(file);
  } catch {
    // A model without a card gives no facts.
    return new Map();
  }
  const header = /^\uFEFF?---\r?\n([\s\S]*?)\r?\n---\s*(?:\r?\n|$)/.exec(text)?.[1] ?? '';
  return new Map(
    header.split(/\r?\n/).flatMap((line) => {
      const [, key, ...quoted] = SCALAR.exec(line) ?? [];
      return key === undefined ? [] : [[key, quoted.find((value) => value !== undefined) ?? ''] as const];
    }),
  );
}
