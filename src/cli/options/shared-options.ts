/** Options that several commands have, each declared once: a command takes one by spreading it into its table. */
import type { PassageColumns } from '../../schemas/passage-row.ts';
import { flag, folder, number, text, wholeNumber } from './kinds.ts';
import { object, roles } from './table-kinds.ts';

/** Arguments of the environment, for a command that has one set of them. */
export const ENVIRONMENT_ARGUMENTS = { envArgs: object('arguments of the environment', { letter: 'a', example: '{"topk": 5}' }) };

/** Columns of a corpus. */
export const PASSAGE_COLUMNS = {
  text: text('column of the text of a passage', { placeholder: 'COLUMN', otherwise: 'contents, else text' }),
  title: text('column of its title', { placeholder: 'COLUMN', otherwise: 'title' }),
  id: text('column of its id', { placeholder: 'COLUMN', otherwise: 'id, _id, docid, doc_id or pid, else the row number' }),
};

/** The columns that were named. */
export function passageColumns(options: { readonly [N in keyof typeof PASSAGE_COLUMNS]?: string | undefined }): PassageColumns {
  const names = (['text', 'title', 'id'] as const).filter((key) => options[key] !== undefined);
  return Object.fromEntries(names.map((key) => [key, options[key]]));
}

/** The default is that of `findEnvironment`. */
export const ENVIRONMENTS_FOLDER = { envDirPath: folder('folder of your own environments', { otherwise: './environments' }) };

export const ROLE = {
  role: roles(
    "the model for one of the environment's roles, such as its judge: an alias, URL, MODEL@URL, builtin or policy; or a key of its table: judge.max_tokens=4096",
  ),
};

/** Applied to the whole command by `runDefined`. */
export const MAX_WAIT = {
  maxWait: number('seconds to wait for a server that limits the rate of requests (429, 529); 0 fails at once', {
    from: 0,
    placeholder: 'S',
    otherwise: '3600',
  }),
};

export const STRICT_STOPS = {
  strictStops: flag(
    'end the run if a chat API does not report whether a stop string ended its text; without this flag the run guesses, and counts the guesses. Token-id APIs always report it',
  ),
};

export const RUNS_FOLDER = { outputDir: folder('where runs are saved', { letter: 'o', otherwise: './outputs' }) };

/** @param beyondLoopback what is true of any address but loopback */
export function listening({ beyondLoopback, port }: { readonly beyondLoopback: string; readonly port: number }) {
  return {
    host: text(`address to listen on; anything but loopback ${beyondLoopback}`, { placeholder: 'ADDRESS', default: '127.0.0.1' }),
    port: wholeNumber('port to listen on; 0 picks any free one', { to: 65_535, default: port }),
  };
}

export const LISTENING = listening({ beyondLoopback: 'is open to the network', port: 8000 });

/** The API key of a server that a command starts. */
export const API_KEY = { apiKeyVar: text('environment variable that holds the API key required of clients', { placeholder: 'NAME' }) };

export const JSON_OBJECT = { json: flag('print one JSON object') };

export const VERBOSE = { verbose: flag('stack traces of failures', { letter: 'v' }) };
