/** Writes runs as one HTML file: the page with its style and script, and the answers to all of its requests. It opens from disk and makes no request. */
import { createHash } from 'node:crypto';
import { CancelledError, ConfigError } from '../../core/errors.ts';
import { ExportAnswers, type ExportLimits } from '../../viewing/export-answers.ts';
import type { CommandContext } from '../command-line.ts';
import { writeOutput } from '../write-output.ts';
import type { OpenedView } from './open-view.ts';
import { readPage } from './read-page.ts';

export interface ExportOptions {
  readonly file: string;
  readonly limits?: ExportLimits;
}

export interface Exported {
  readonly bytes: number;
  /** The runs that were left out, one line each. */
  readonly leftOut: readonly string[];
}

const NOTE_EVERY_MS = 3000;
const PIECE_CHARACTERS = 2 ** 20;

/** `-` is stdout. An existing file is replaced once the new one is complete. Throws ConfigError for a name that cannot be written, before anything is read. */
export async function exportFile(
  { source }: OpenedView,
  { file, limits = {} }: ExportOptions,
  { signal, note }: Pick<CommandContext, 'signal' | 'note'>,
): Promise<Exported> {
  const [before, after] = await pageAround();
  const answers = new ExportAnswers(source, limits);
  let bytes = 0;
  const writePage = async (write: (text: string) => Promise<void>) => {
    let held = '';
    const flush = async () => {
      const piece = held;
      held = '';
      bytes += Buffer.byteLength(piece, 'utf8');
      await write(piece);
    };
    const put = async (text: string) => {
      held += text;
      if (held.length > PIECE_CHARACTERS) await flush();
    };
    await put(`${before}{"answers":{`);
    let separator = '';
    let notedAt = performance.now();
    for await (const [key, json] of answers.pairs(signal)) {
      if (signal.aborted) throw new CancelledError('Interrupted by the user');
      await put(`${separator}${inScript(JSON.stringify(key))}:${inScript(json)}`);
      separator = ',';
      if (performance.now() - notedAt < NOTE_EVERY_MS) continue;
      notedAt = performance.now();
      note(`vf-view: ${(bytes / 1e6).toFixed(1)} MB written`);
    }
    await put(`},"left_out":${inScript(JSON.stringify(answers.leftOut))}}${after}`);
    await flush();
  };
  await writeOutput(file, writePage, '--export');
  return { bytes, leftOut: answers.leftOut };
}

/** No text can end the element that holds it, or begin another. */
function inScript(json: string): string {
  return json.replaceAll('<', '\\u003c');
}

/** The page's HTML before and after its data. */
async function pageAround(): Promise<[before: string, after: string]> {
  const page = await readPage();
  const text = (name: 'index.html' | 'view.js' | 'view.css') => Buffer.from(page.get(name)!.bytes).toString('utf8');
  // Inside a string or a pattern of JavaScript the backslash changes nothing.
  const script = text('view.js').replace(/<(?=\/script|!--|script)/gi, '\\x3c');
  const style = text('view.css');
  if (/<\/style/i.test(style)) throw new ConfigError('The style of the page would end itself. Build the package again.');
  const policy = `default-src 'none'; script-src '${hashOf(script)}'; style-src '${hashOf(style)}'; img-src data:; base-uri 'none'; form-action 'none'`;
  const meta = `<meta http-equiv="content-security-policy" content="${policy}" />`;
  // Replaced by functions, because $ has a meaning in replacement texts.
  const html = text('index.html')
    .replace(/(<meta charset="utf-8" \/>)/, (charset) => `${charset}\n    ${meta}`)
    .replace(/<link rel="stylesheet" href="view\.css" \/>/, () => `<style>${style}</style>`);
  const [before, after] = html.split('<script src="view.js"></script>');
  if (after === undefined || !before!.includes(meta) || !before!.includes(style))
    throw new ConfigError('The page has another form than expected. Build the package again.');
  return [`${before}<script type="application/json" id="vf-view-data">`, `</script>\n    <script>${script}</script>${after}`];
}

function hashOf(text: string): string {
  return `sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}`;
}
