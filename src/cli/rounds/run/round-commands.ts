/** The package's commands, as `vf-rounds run` uses them: their parsers in this process, their work in processes of their own. */
import { ConfigError } from '../../../core/errors.ts';
import type { RoundCommands, RoundStage, StageModelOptions } from '../../../rounds/driver/round-commands.ts';
import { vfTrain } from '../../commands/vf-train.ts';
import type { Command } from '../../options/define-command.ts';
import { asksFor, parseWords } from '../../options/parse-words.ts';
import { trainArguments } from '../../train/train-arguments.ts';
import { bucketCommand, focusCommand, verifyCommand } from '../curate-commands.ts';
import { extractCommand, finalizeCommand, rewriteCommand, vetCommand } from '../distill-commands.ts';
import { runOwn } from './own-process.ts';
import { printable } from '../../../reports/text/terminal-text.ts';

const STAGES: Readonly<Record<RoundStage, Command>> = {
  bucket: bucketCommand,
  verify: verifyCommand,
  focus: focusCommand,
  extract: extractCommand,
  vet: vetCommand,
  rewrite: rewriteCommand,
  finalize: finalizeCommand,
};

export const ROUND_COMMANDS: RoundCommands = {
  trainingRequest: (words) => {
    const parsed = asksFor(vfTrain, words) === null ? parseWords(vfTrain, words) : null;
    const request = parsed === null || parsed.options.helpConfig === true || parsed.options.listPresets === true ? null : trainArguments(parsed);
    if (request?.action !== 'train' || request.resume !== null)
      throw new ConfigError('its flags have one with which vf-train starts no training, such as -R, --dry-run or --help; leave it out');
    return request;
  },
  stageOptions: (stage, words) => {
    const { role, config } = parseWords(STAGES[stage], words).options as StageModelOptions;
    return { ...(role !== undefined && { role }), ...(config !== undefined && { config }) };
  },
  run: runOwn,
  print: (text) => void process.stdout.write(printable(text)),
};
