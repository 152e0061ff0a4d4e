/**
 * A run of Weights & Biases in its offline format, which `wandb sync` uploads: `offline-run-<time>-<id>/run-<id>.wandb`. Writing it needs neither Python
 * nor a key nor the network.
 *
 * The file is a log of LevelDB: blocks of 32 KiB with records that may be split between them. It begins with seven bytes of W&B's; each record is a
 * `Record` of wandb_internal.proto (field numbers as in wandb 0.31). W&B's history only grows, so if a run continues after a step, a new W&B run with
 * all rows up to there takes its place in the same group.
 */
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { RecordedMetricsRow } from '../training-observer.ts';
import { AppendFile } from './append-file.ts';
import { type CurveFile, curvePoints } from './curve-log.ts';
import { messageField, textField, varintField } from './protobuf.ts';

export interface WandbRun {
  /** Unique in the project; a later file of the same folder gets `<id>-2`. */
  readonly id: string;
  /** Shown in lists; a later file gets `<name>-2`. */
  readonly name: string;
  readonly project: string;
  /** A user or team. Null: the one that `wandb sync` chooses. */
  readonly entity: string | null;
  readonly group: string;
  readonly tags: readonly string[];
  readonly startedAt: Date;
}

export interface WandbFileOptions {
  /** Parent of the run folders; created if missing. */
  readonly folder: string;
  readonly run: WandbRun;
  readonly rows: readonly RecordedMetricsRow[];
  /** The run's settings, free of secrets. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** Version of vf-search. */
  readonly packageVersion: string;
  /** @default now */
  readonly now?: Date;
}

/** The number at the end of a folder's name; the first folder of a run has none and counts as 1. */
function numberOf(name: string, id: string): number {
  const after = name.slice(name.lastIndexOf(id) + id.length);
  return name.includes(id) && /^-\d+$/.test(after) ? Number(after.slice(1)) : 1;
}

export function openWandbFile({ folder, run, rows, settings, packageVersion, now = new Date() }: WandbFileOptions): CurveFile {
  mkdirSync(folder, { recursive: true });
  // The highest number, not the count: a folder may have been deleted after it was uploaded.
  const names = readdirSync(folder).filter((name) => name.startsWith('offline-run-'));
  const earlier = Math.max(0, ...names.map((name) => numberOf(name, run.id)));
  const suffix = earlier === 0 ? '' : `-${earlier + 1}`;
  const id = `${run.id}${suffix}`;
  const runFolder = join(folder, `offline-run-${timeText(now)}-${id}`);
  // `wandb sync` writes there what it derives.
  mkdirSync(join(runFolder, 'files'), { recursive: true });
  const log = new WandbLog(join(runFolder, `run-${id}.wandb`), run.startedAt);
  log.write(messageField(RECORD.header, messageField(1, textField(1, `vf-search ${packageVersion}`))));
  log.write(messageField(RECORD.run, ...runFields({ ...run, id, name: `${run.name}${suffix}` }, settings)));
  // Charts have the training step as their x axis, not the number of the row.
  log.write(messageField(RECORD.metric, textField(1, 'step'), messageField(6, varintField(3, 1))));
  log.write(messageField(RECORD.metric, textField(2, '*'), textField(4, 'step'), messageField(6, varintField(1, 1), varintField(3, 1))));
  for (const row of rows) log.row(row);
  return {
    append: (row) => log.row(row),
    close(isFinished) {
      log.write(messageField(RECORD.exit, varintField(1, isFinished ? 0 : 1)));
      log.close();
    },
  };
}

/** Fields of `Record`. */
const RECORD = { number: 1, history: 2, summary: 3, metric: 12, run: 17, exit: 18, header: 21 } as const;

function runFields(run: WandbRun, settings: Readonly<Record<string, unknown>>): Buffer[] {
  const config = Object.entries(settings).map(([key, value]) => messageField(1, textField(1, key), textField(16, JSON.stringify(value))));
  const milliseconds = run.startedAt.getTime();
  return [
    textField(1, run.id),
    ...(run.entity === null ? [] : [textField(2, run.entity)]),
    textField(3, run.project),
    messageField(4, ...config),
    textField(6, run.group),
    textField(7, 'train'),
    textField(8, run.name),
    ...run.tags.map((tag) => textField(10, tag)),
    messageField(17, varintField(1, Math.floor(milliseconds / 1000)), varintField(2, (milliseconds % 1000) * 1e6)),
  ];
}

const BLOCK = 32_768;
const FRAME = 7;

/** The part of a record that a frame holds. */
const PART = { whole: 1, first: 2, middle: 3, last: 4 } as const;

class WandbLog {
  readonly #file: AppendFile;
  readonly #startedAt: Date;
  #records = 0;
  #rows = 0;

  constructor(path: string, startedAt: Date) {
    this.#file = new AppendFile(path);
    this.#startedAt = startedAt;
    // ":W&B", a magic number and the version of the format.
    this.#file.append(Buffer.from([0x3a, 0x57, 0x26, 0x42, 0xe1, 0xbe, 0x00]));
  }

  /** Each row is a line of W&B's history, under a number of its own: an evaluation has the step of the row before it. */
  row(row: RecordedMetricsRow): void {
    const seconds = Date.parse(row.time) / 1000;
    const number = this.#rows++;
    const values: [key: string, value: number][] = [
      ...curvePoints(row).map(({ tag, value }): [string, number] => [tag, value]),
      ['step', row.step],
      ['_timestamp', seconds],
      ['_runtime', Math.max(0, seconds - this.#startedAt.getTime() / 1000)],
      ['_step', number],
    ];
    const items = values.map(([key, value]) => messageField(1, textField(2, key), textField(16, JSON.stringify(value))));
    // The summary holds the last value of each metric.
    this.write(messageField(RECORD.summary, ...items));
    this.write(messageField(RECORD.history, ...items, messageField(2, varintField(1, number))));
  }

  write(content: Buffer): void {
    this.#file.append(this.#framed(Buffer.concat([varintField(RECORD.number, ++this.#records), content])));
  }

  close(): void {
    this.#file.close();
  }

  #framed(record: Buffer): Buffer {
    const frames: Buffer[] = [];
    let position = this.#file.bytes;
    let rest = record;
    let isFirst = true;
    do {
      const room = BLOCK - (position % BLOCK);
      // The end of a block that cannot hold a frame is filled with zeros.
      if (room < FRAME) frames.push(Buffer.alloc(room));
      const space = (room < FRAME ? BLOCK : room) - FRAME;
      const data = rest.subarray(0, space);
      const isLast = data.length === rest.length;
      frames.push(frame(data, isFirst ? (isLast ? PART.whole : PART.first) : isLast ? PART.last : PART.middle));
      position += (room < FRAME ? room : 0) + FRAME + data.length;
      rest = rest.subarray(data.length);
      isFirst = false;
    } while (rest.length > 0);
    return Buffer.concat(frames);
  }
}

function frame(data: Buffer, part: number): Buffer {
  const head = Buffer.alloc(FRAME);
  head.writeUInt32LE(crc32(data, crc32(Buffer.from([part]))), 0);
  head.writeUInt16LE(data.length, 4);
  head.writeUInt8(part, 6);
  return Buffer.concat([head, data]);
}

/** `20261123_000400`, in UTC. */
function timeText(time: Date): string {
  return time.toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '_');
}
