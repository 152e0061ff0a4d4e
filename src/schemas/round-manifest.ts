/** `*.manifest.json`, written with the outputs of a stage of a round: its inputs, its rule and its results. docs/rounds.md describes it. */
import type { XStatic } from 'typebox/schema';
import { byName, count, flag, json, listOf, number, object, only, text } from './json-schema.ts';

export const RoundManifestSchema = object({
  schema_version: only(1),
  stage: text,
  stage_version: count,
  /** False while the outputs are being written. */
  complete: flag,
  rule: json,
  counts: byName(number),
  /** Paths are relative to the folder of the manifest. */
  inputs: listOf(object({ role: text, path: text, sha256: text })),
  outputs: listOf(object({ path: text, sha256: text, rows: count })),
});
export type WireRoundManifest = XStatic<typeof RoundManifestSchema>;
