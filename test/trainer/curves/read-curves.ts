/** Reads event files and W&B's offline runs without their libraries, strictly: a wrong checksum or length throws. real-readers.test.ts compares with the libraries. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { crc32c } from '../../../src/trainer/curves/crc32c.ts';

/** The value of each metric, in the order of the file: [tag, step, value, seconds]. */
export type ReadPoint = readonly [tag: string, step: number, value: number, seconds: number];

/** Fields of a message by number; numbers as such, messages and texts as bytes. */
type Fields = Map<number, (number | Buffer)[]>;

/** All points of a folder with event files: of the last one, if it begins with the start of a session at step 0, as all must. */
export function readEventFile(folder: string): ReadPoint[] {
  const records = eventRecords(readFileSync(join(folder, readdirSync(folder).toSorted().at(-1)!)));
  const [version, start] = records.map(fieldsOf);
  if (textOf(version!, 3) !== 'brain.Event:2') throw new Error('no version');
  if (numberOf(fieldsOf(start!.get(7)![0] as Buffer), 1) !== 1 || numberOf(start!, 2) !== 0) throw new Error('no start at step 0');
  return records.flatMap((body) => {
    const event = fieldsOf(body);
    const [summary] = event.get(5) ?? [];
    if (summary === undefined) return [];
    const values = (fieldsOf(summary as Buffer).get(1) ?? []).map((value) => fieldsOf(value as Buffer));
    return values.flatMap((value): ReadPoint[] =>
      value.has(2) ? [[textOf(value, 1), numberOf(event, 2), numberOf(value, 2), numberOf(event, 1)]] : [],
    );
  });
}

/** The bodies of the records. The last record must be whole. */
function eventRecords(file: Buffer): Buffer[] {
  const bodies: Buffer[] = [];
  for (let at = 0; at < file.length;) {
    const length = Number(file.readBigUInt64LE(at));
    const [head, body] = [file.subarray(at, at + 8), file.subarray(at + 12, at + 12 + length)];
    for (const [bytes, position] of [[head, at + 8] as const, [body, at + 12 + length] as const]) {
      const rotated = (file.readUInt32LE(position) - 0xa282ead8) >>> 0;
      if (((rotated << 15) | (rotated >>> 17)) >>> 0 !== crc32c(bytes)) throw new Error(`wrong checksum at ${position}`);
    }
    bodies.push(body);
    at += 16 + length;
  }
  return bodies;
}

export interface ReadWandbRun {
  readonly id: string;
  readonly project: string;
  readonly group: string;
  readonly name: string;
  /** Null for a run that did not end by itself. */
  readonly exitCode: number | null;
  readonly points: readonly ReadPoint[];
}

/** The runs of a folder, oldest first. */
export function readWandbRuns(folder: string): ReadWandbRun[] {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.wandb'));
  // `run-<id>.wandb`, then `run-<id>-2.wandb`: an id may consist of digits alone.
  const number = (name: string) => Number(/run-\w+-(\d+)\.wandb$/.exec(name)?.[1] ?? 1);
  return files.toSorted((a, b) => number(a) - number(b)).map((name) => readWandbRun(readFileSync(join(folder, name))));
}

function readWandbRun(file: Buffer): ReadWandbRun {
  const records = logRecords(file).map(fieldsOf);
  records.forEach((record, i) => {
    if (numberOf(record, 1) !== i + 1) throw new Error(`record ${i + 1} has number ${numberOf(record, 1)}`);
  });
  const only = (field: number) => records.flatMap((record) => (record.has(field) ? [fieldsOf(record.get(field)![0] as Buffer)] : []));
  const [run] = only(17);
  const [exit] = only(18);
  return {
    id: textOf(run!, 1),
    project: textOf(run!, 3),
    group: textOf(run!, 6),
    name: textOf(run!, 8),
    exitCode: exit === undefined ? null : numberOf(exit, 1),
    points: only(2).flatMap((history) => {
      const items = (history.get(1) ?? []).map((item) => fieldsOf(item as Buffer));
      const values = new Map(items.map((item) => [textOf(item, 2), Number(JSON.parse(textOf(item, 16)))]));
      const own = ['step', '_step', '_timestamp', '_runtime'];
      return [...values].flatMap(([tag, value]): ReadPoint[] =>
        own.includes(tag) ? [] : [[tag, values.get('step')!, value, values.get('_timestamp')!]],
      );
    }),
  };
}

/** The records of a log of LevelDB, after W&B's seven bytes. */
function logRecords(file: Buffer): Buffer[] {
  if (file.toString('latin1', 0, 7) !== ':W&B\u00e1\u00be\u0000') throw new Error('not a file of W&B');
  const records: Buffer[] = [];
  let parts: Buffer[] = [];
  for (let at = 7; at < file.length;) {
    const room = 32_768 - (at % 32_768);
    if (room < 7) {
      if (!file.subarray(at, at + room).equals(Buffer.alloc(room))) throw new Error(`no zeros at ${at}`);
      at += room;
      continue;
    }
    const length = file.readUInt16LE(at + 4);
    const data = file.subarray(at + 7, at + 7 + length);
    if (length + 7 > room || data.length !== length) throw new Error(`a frame of ${length} at ${at}`);
    if (file.readUInt32LE(at) !== crc32(file.subarray(at + 6, at + 7 + length))) throw new Error(`wrong checksum at ${at}`);
    const part = file[at + 6]!;
    if ((part === 1 || part === 2) !== (parts.length === 0)) throw new Error(`a part of kind ${part} at ${at}`);
    parts.push(data);
    if (part === 1 || part === 4) records.push(Buffer.concat(parts.splice(0)));
    at += 7 + length;
  }
  if (parts.length > 0) throw new Error('the last record is not whole');
  parts = [];
  return records;
}

function fieldsOf(message: Buffer): Fields {
  const fields: Fields = new Map();
  let at = 0;
  const varint = () => {
    for (let value = 0, scale = 1; ; scale *= 128) {
      const byte = message[at++]!;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const tag = varint();
    const kind = tag % 8;
    const size = kind === 2 ? varint() : kind === 1 ? 8 : 4;
    const value =
      kind === 0 ? varint() : kind === 1 ? message.readDoubleLE(at) : kind === 5 ? message.readFloatLE(at) : message.subarray(at, at + size);
    if (kind !== 0) at += size;
    fields.set((tag - kind) / 8, [...(fields.get((tag - kind) / 8) ?? []), value]);
  }
  return fields;
}

const numberOf = (fields: Fields, field: number) => (fields.get(field)?.[0] ?? 0) as number;
const textOf = (fields: Fields, field: number) => String(fields.get(field)?.[0] ?? '');
