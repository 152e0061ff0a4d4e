/** Model directories without a model: the byte-level tokenizer of test/models/nano-base with the control tokens of a published chat template, and that template. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface PublishedTemplate {
  readonly file: string;
  readonly sha256: string;
  readonly bos_token: string | null;
  readonly eos_token: string;
  readonly control_tokens: readonly string[];
  /** Single tokens that are not control tokens. */
  readonly added_tokens: readonly string[];
}

const ROOT = join(import.meta.dirname, '../..');
export const TEMPLATES_FOLDER = join(ROOT, 'test/golden/chat-templates');

export const PUBLISHED = (JSON.parse(readFileSync(join(TEMPLATES_FOLDER, 'MANIFEST.json'), 'utf8')) as { templates: readonly PublishedTemplate[] })
  .templates;

export function published(name: string): PublishedTemplate {
  const found = PUBLISHED.find(({ file }) => file === `${name}.jinja`);
  if (found === undefined) throw new Error(`Expected a template in test/golden/chat-templates, found no ${name}`);
  return found;
}

export function templateSource({ file }: PublishedTemplate): string {
  return readFileSync(join(TEMPLATES_FOLDER, file), 'utf8');
}

export interface TemplateModelOptions {
  /** False leaves the template out. @default true */
  readonly hasTemplate?: boolean;
  /** The post-processor of tokenizer.json puts BOS first. @default false */
  readonly beginsWithBos?: boolean;
  /** Adds to tokenizer_config.json. */
  readonly settings?: Readonly<Record<string, unknown>>;
}

/** Writes `<folder>/<name>` and gives its path. */
export function writeTemplateModel(
  folder: string,
  template: PublishedTemplate,
  { hasTemplate = true, beginsWithBos = false, settings = {} }: TemplateModelOptions = {},
): string {
  const directory = join(folder, template.file.replace('.jinja', hasTemplate ? '' : '-bare'));
  mkdirSync(directory, { recursive: true });
  const json = JSON.parse(readFileSync(join(ROOT, 'test/models/nano-base/tokenizer.json'), 'utf8')) as { model: { vocab: Record<string, number> } };
  const size = Object.keys(json.model.vocab).length;
  const contents = [...template.control_tokens, ...template.added_tokens];
  const added = contents.map((content, i) => ({
    id: size + i,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: i < template.control_tokens.length,
  }));
  const ends = beginsWithBos ? { post_processor: bosProcessor(template.bos_token!, added) } : {};
  writeFileSync(join(directory, 'tokenizer.json'), JSON.stringify({ ...json, added_tokens: added, ...ends }));
  const named = { eos_token: template.eos_token, ...(template.bos_token === null ? {} : { bos_token: template.bos_token }) };
  writeFileSync(join(directory, 'tokenizer_config.json'), JSON.stringify({ tokenizer_class: 'PreTrainedTokenizerFast', ...named, ...settings }));
  if (hasTemplate) writeFileSync(join(directory, 'chat_template.jinja'), templateSource(template));
  return directory;
}

/** As in the tokenizer.json of Llama 3. */
export function bosProcessor(bos: string, added: readonly { readonly id: number; readonly content: string }[]) {
  const { id } = added.find(({ content }) => content === bos)!;
  const single = [{ SpecialToken: { id: bos, type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }];
  return { type: 'TemplateProcessing', single, pair: single, special_tokens: { [bos]: { id: bos, ids: [id], tokens: [bos] } } };
}
