/**
 * An event file of TensorBoard: scalars, the run's settings as hyperparameters, and its configuration as text.
 *
 * Records are framed as in TFRecord: length (uint64), its masked CRC-32C, an `Event` of tensorflow/core/util/event.proto, its masked CRC-32C. Each file
 * holds every row of the run. It opens with `SessionLog.START` at step 0, at which TensorBoard discards what it has read in the files before it. These stay,
 * because a TensorBoard that has one of them open would not find the next. Scalars are float32 (`simple_value`), as all writers have them.
 */
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { RecordedMetricsRow } from '../training-observer.ts';
import { AppendFile } from './append-file.ts';
import { crc32c } from './crc32c.ts';
import { type CurveFile, curvePoints } from './curve-log.ts';
import { doubleField, floatField, messageField, textField, varintField } from './protobuf.ts';

export interface TensorboardFileOptions {
  /** Folder of the run's event files; created if missing. */
  readonly folder: string;
  readonly rows: readonly RecordedMetricsRow[];
  /** The run's settings, free of secrets; tables are flattened to dotted names. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** Text of config.toml, free of secrets. */
  readonly config: string;
  /** Time of the events without a row. @default now */
  readonly now?: Date;
}

const NAME = /^events\.out\.tfevents\.(\d+)\.vf-search$/;

export function openTensorboardFile({ folder, rows, settings, config, now = new Date() }: TensorboardFileOptions): CurveFile {
  mkdirSync(folder, { recursive: true });
  const earlier = readdirSync(folder).filter((name) => NAME.test(name));
  // TensorBoard reads files in the order of their names.
  const second = Math.max(Math.floor(now.getTime() / 1000), ...earlier.map((name) => Number(NAME.exec(name)![1]) + 1));
  const file = new AppendFile(join(folder, `events.out.tfevents.${String(second).padStart(10, '0')}.vf-search`));
  const seconds = now.getTime() / 1000;
  file.append(
    Buffer.concat([
      record(event(seconds, 0, textField(EVENT.fileVersion, 'brain.Event:2'))),
      record(event(seconds, 0, messageField(EVENT.sessionLog, varintField(1, SESSION_START)))),
      record(event(seconds, 0, messageField(EVENT.summary, hyperparameters(settings, seconds), configText(config)))),
      ...rows.map(rowRecord),
    ]),
  );
  return { append: (row) => file.append(rowRecord(row)), close: () => file.close() };
}

/** Fields of `Event`. */
const EVENT = { wallTime: 1, step: 2, fileVersion: 3, summary: 5, sessionLog: 7 } as const;

/** Fields of `Summary.Value`; each is a `value` of `Summary`, field 1. */
const VALUE = { tag: 1, simpleValue: 2, tensor: 8, metadata: 9 } as const;

const SESSION_START = 1;
const DT_FLOAT = 1;
const DT_STRING = 7;

function rowRecord(row: RecordedMetricsRow): Buffer {
  const values = curvePoints(row).map(({ tag, value }) => messageField(1, textField(VALUE.tag, tag), floatField(VALUE.simpleValue, value)));
  return record(event(Date.parse(row.time) / 1000, row.step, messageField(EVENT.summary, ...values)));
}

function event(seconds: number, step: number, content: Buffer): Buffer {
  return Buffer.concat([doubleField(EVENT.wallTime, seconds), varintField(EVENT.step, step), content]);
}

function record(body: Buffer): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(body.length));
  return Buffer.concat([length, maskedChecksum(length), body, maskedChecksum(body)]);
}

/** Rotated and offset, so that a checksum of data that holds checksums is still a good one. */
function maskedChecksum(bytes: Buffer): Buffer {
  const crc = crc32c(bytes);
  const masked = Buffer.alloc(4);
  masked.writeUInt32LE((((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0);
  return masked;
}

/** `SessionStartInfo` of the HPARAMS plugin (tensorboard/plugins/hparams/plugin_data.proto). */
function hyperparameters(settings: Readonly<Record<string, unknown>>, startSeconds: number): Buffer {
  const entries = scalarSettings(settings).map(([name, value]) => messageField(1, textField(1, name), messageField(2, settingValue(value))));
  const startInfo = messageField(3, ...entries, doubleField(5, startSeconds));
  return pluginValue('_hparams_/session_start_info', 'hparams', startInfo, [varintField(1, DT_FLOAT), messageField(2), floatField(5, 0)]);
}

/** Shown in the TEXT tab; four spaces make it a block of code there. */
function configText(config: string): Buffer {
  const markdown = config.replace(/^/gm, '    ');
  const shape = messageField(2, messageField(2, varintField(1, 1)));
  return pluginValue('config', 'text', Buffer.alloc(0), [varintField(1, DT_STRING), shape, textField(8, markdown)]);
}

function pluginValue(tag: string, plugin: string, content: Buffer, tensor: readonly Buffer[]): Buffer {
  const metadata = messageField(VALUE.metadata, messageField(1, textField(1, plugin), messageField(2, content)));
  return messageField(1, textField(VALUE.tag, tag), messageField(VALUE.tensor, ...tensor), metadata);
}

type Scalar = number | string | boolean;

/** A `google.protobuf.Value`. */
function settingValue(value: Scalar): Buffer {
  if (typeof value === 'number') return doubleField(2, value);
  return typeof value === 'string' ? textField(3, value) : varintField(4, Number(value));
}

/** Settings by dotted name; a list becomes its JSON, and unset ones are left out. */
function scalarSettings(table: Readonly<Record<string, unknown>>, path = ''): [name: string, value: Scalar][] {
  return Object.entries(table).flatMap(([name, value]): [string, Scalar][] => {
    if (value === null || value === undefined) return [];
    if (typeof value === 'number' || typeof value === 'string' || typeof value === 'boolean') return [[`${path}${name}`, value]];
    return Array.isArray(value)
      ? [[`${path}${name}`, JSON.stringify(value)]]
      : scalarSettings(value as Readonly<Record<string, unknown>>, `${path}${name}.`);
  });
}
