/** What a row becomes for the agent: JSON on its standard input, or words of its command. It never sees the golden answers. */
import { ConfigError, EnvironmentError, type QuestionRow, type Row } from 'vf-search';
import { holdsAnswers } from 'vf-search/environment-kit';

export interface AgentRow extends Row {
  readonly info: { readonly golden_answers: readonly string[]; readonly fields: Readonly<Record<string, unknown>> };
}

/** `{question}`, `{id}` or another field of the row. */
const FIELD = /\{([A-Za-z_]\w*)\}/g;
/** Linux takes no longer argument (MAX_ARG_STRLEN). */
const WORD_BYTES = 131_071;

/** @param answerColumn that the user named, such as `gold` or `meta.gold` */
export function toRow(
  { golden_answers: golden, index: _index, split: _split, data_source: _source, ...row }: QuestionRow,
  answerColumn?: string,
): AgentRow {
  const hidden = answerColumn?.split('.')[0];
  const fields = Object.fromEntries(Object.entries(row).filter(([name]) => !holdsAnswers(name) && name !== answerColumn && name !== hidden));
  return {
    exampleId: row.id,
    prompt: [{ role: 'user', content: row.question }],
    ...(golden.length === 0 ? {} : { answer: golden[0]! }),
    info: { golden_answers: golden, fields },
  };
}

/** Throws ConfigError for a field that no row has. */
export function assertFields(command: readonly string[], rows: readonly AgentRow[]): void {
  const known = new Set(rows.flatMap(({ info }) => Object.keys(info.fields)));
  const unknown = fieldsOf(command).find((name) => !known.has(name));
  if (unknown !== undefined)
    throw new ConfigError(`The command names {${unknown}}, but the rows have ${[...known].join(', ')}. Name one of these, or leave it out`);
}

function fieldsOf(command: readonly string[]): string[] {
  return command.flatMap((word) => [...word.matchAll(FIELD)].map(([, name]) => name!));
}

export interface AskedProgram {
  readonly command: readonly string[];
  readonly input: string;
}

/** The command for a row. Its fields go into its words or, if it names none, as JSON to its standard input, which is empty otherwise. Throws EnvironmentError for a value that is no argument. */
export function askProgram([program, ...words]: readonly string[], { info: { fields }, exampleId }: AgentRow): AskedProgram {
  if (fieldsOf(words).length === 0) return { command: [program!, ...words], input: `${JSON.stringify(fields)}\n` };
  const filled = words.map((word) => word.replace(FIELD, (_, name: string) => textOf(fields[name])));
  const wrong = filled.find((word) => word.includes('\0') || Buffer.byteLength(word) > WORD_BYTES);
  if (wrong !== undefined)
    throw new EnvironmentError(
      `The row ${exampleId} does not fit into an argument of the command: it has a zero byte, or more than ${WORD_BYTES} bytes. Leave the field out of the command: the row then comes as JSON on stdin`,
    );
  return { command: [program!, ...filled], input: '' };
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}
