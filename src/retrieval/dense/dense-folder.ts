/**
 * The folder of a dense index: `vectors` (LanceDB), `bm25` (a BM25 index of the same corpus, optional), and `manifest.json`, which is written last. Until then
 * `building.json` holds the state with which an interrupted build goes on.
 */
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { readJsonFileSync } from '../../files/json-file.ts';
import type { XStatic } from 'typebox/schema';
import { ConfigError } from '../../core/errors.ts';
import { replaceFile } from '../../files/json-lines.ts';
import { DOCUMENT_BYTES, readRegularFileSync } from '../../files/regular-file.ts';
import { count, countOrNull, flag, listOf, object, only, text, textOrNull } from '../../schemas/json-schema.ts';
import { schemaCheck } from '../../schemas/schema-check.ts';
import { indexManifest, isIndexFolder } from '../bm25/index-folder.ts';
import { DENSE_FORMAT, DENSE_VERSION, type DenseManifest, parseDenseManifest } from './dense-manifest.ts';
import { vectorFault } from './vector-checksums.ts';

const MANIFEST = 'manifest.json';
const BUILDING = 'building.json';
/** Half a BM25 index, and files that were to be renamed to the two. */
const LEFT = /^\.bm25\.\d+\.tmp-|^(?:manifest|building)\.json\.\d+\.tmp$/;

const stateSchema = object({
  format: only(DENSE_FORMAT),
  version: only(DENSE_VERSION),
  model: text,
  dim: countOrNull,
  query_prefix: text,
  passage_prefix: text,
  embeddings_url: textOrNull,
  /** Path of the corpus. */
  corpus: text,
  bm25: flag,
  /** Before and after the last batch that was written: the table's number of rows says which of them it holds. `sha256` covers all passages so far. */
  commits: listOf(object({ rows: count, sha256: text })),
});
export type BuildState = XStatic<typeof stateSchema>;

export class DenseFolder {
  readonly path: string;

  /** `path`: absolute. */
  constructor(path: string) {
    this.path = path;
  }

  get vectors(): string {
    return join(this.path, 'vectors');
  }

  get bm25(): string {
    return join(this.path, 'bm25');
  }

  get hasBm25(): boolean {
    return isIndexFolder(this.bm25);
  }

  get isComplete(): boolean {
    return existsSync(join(this.path, MANIFEST));
  }

  /** Throws ConfigError if the folder is not a dense index, or is damaged. */
  manifest(): DenseManifest {
    let json: string;
    try {
      json = readRegularFileSync(join(this.path, MANIFEST), DOCUMENT_BYTES);
    } catch (cause) {
      if (cause instanceof ConfigError) throw cause;
      if (!existsSync(join(this.path, BUILDING))) throw this.#unusable(`it lacks ${MANIFEST}`, cause);
      throw new ConfigError(`${this.path} is not a usable dense index: it is unfinished. Run the command that builds it again to finish it.`, {
        cause,
      });
    }
    const manifest = parseDenseManifest(json);
    if (typeof manifest === 'string') throw this.#unusable(manifest);
    return manifest;
  }

  /**
   * Makes sure that the parts are those that were built together. Rejects with ConfigError. An index of an older version has no checksums, so that only its BM25 index
   * is compared with it.
   */
  async checkParts({ files, corpus, bm25 }: DenseManifest, signal: AbortSignal): Promise<void> {
    const fault = files === undefined ? null : await vectorFault(this.vectors, files, signal);
    if (fault !== null) throw this.#unusable(fault);
    if (!bm25 || !this.hasBm25) return;
    if (indexManifest(this.bm25).corpus.sha256 !== corpus.sha256) throw this.#unusable('its bm25 is an index of another corpus');
  }

  #unusable(problem: string, cause?: unknown): ConfigError {
    return new ConfigError(
      `${this.path} is not a usable dense index: ${problem}. Build it again: vf-index <corpus.jsonl> -o ${this.path} --dense <url> -m <model> --force`,
      { cause },
    );
  }

  /** The state that an interrupted build left; null if none was interrupted. Throws ConfigError if it cannot be read. */
  state(): BuildState | null {
    if (!existsSync(join(this.path, BUILDING))) return null;
    let value: unknown;
    try {
      value = readJsonFileSync(join(this.path, BUILDING));
    } catch (cause) {
      throw new ConfigError(`The unfinished index ${this.path} cannot be continued: its ${BUILDING} is damaged. Start over with --force.`, { cause });
    }
    if (!schemaCheck(stateSchema)(value))
      throw new ConfigError(`The unfinished index ${this.path} was begun by another version. Start over with --force.`);
    return value;
  }

  async keepState(state: BuildState): Promise<void> {
    await this.#replace(BUILDING, state);
  }

  /** Completes the index. A build that is killed meanwhile leaves no half-written manifest, so the same command can finish it. */
  async seal(manifest: DenseManifest): Promise<void> {
    await this.#replace(MANIFEST, manifest);
    rmSync(join(this.path, BUILDING), { force: true });
  }

  /** Makes way for a new index. Throws ConfigError as `assertReplaceable`. */
  clear(options: { readonly overwrite: boolean }): void {
    this.assertReplaceable(options);
    for (const name of this.#entries()) rmSync(join(this.path, name), { recursive: true, force: true });
  }

  /** Throws ConfigError if the folder holds anything other than an index, or one without `overwrite`. */
  assertReplaceable({ overwrite }: { readonly overwrite: boolean }): void {
    const entries = this.#entries();
    if (entries.length === 0) return;
    if (!entries.includes(BUILDING) && !this.#hasOwnManifest())
      throw new ConfigError(`${this.path} is not an index of vf-index, so it is not replaced. Remove it, or choose another folder.`);
    if (!overwrite) throw new ConfigError(`${this.path} already exists. Choose another folder, or replace it with --force.`);
  }

  #entries(): string[] {
    return readdirSync(this.path).filter((name) => !name.startsWith('.lock'));
  }

  /** Browser extensions have a file of that name, too. */
  #hasOwnManifest(): boolean {
    let json: string;
    try {
      json = readRegularFileSync(join(this.path, MANIFEST), DOCUMENT_BYTES);
    } catch {
      return false;
    }
    return parseDenseManifest(json) !== 'its manifest.json was not written by vf-index --dense' && json.includes('"vf-search-');
  }

  /** Removes the leftover files of a build that was killed. */
  sweep(): void {
    for (const name of readdirSync(this.path)) if (LEFT.test(name)) rmSync(join(this.path, name), { recursive: true, force: true });
  }

  async #replace(name: string, value: DenseManifest | BuildState): Promise<void> {
    await replaceFile(join(this.path, name), (write) => write(Buffer.from(`${JSON.stringify(value, null, 2)}\n`)));
  }
}
