/** The argument and the options of every command that serves an environment. */
import { argument } from '../options/define-command.ts';
import { flag, oneOf, text, texts } from '../options/kinds.ts';
import type { OptionValues } from '../options/option.ts';
import { ENVIRONMENT_ARGUMENTS, ENVIRONMENTS_FOLDER, MAX_WAIT } from '../options/shared-options.ts';
import { roles } from '../options/table-kinds.ts';

export const SERVED_ENVIRONMENT = { environment: argument('the environment', { label: 'id or path', completion: 'environments' }) };

export const SERVED = {
  ...ENVIRONMENT_ARGUMENTS,
  ...MAX_WAIT,
  ...ENVIRONMENTS_FOLDER,
  split: oneOf(['train', 'eval'], 'the rows to serve', { default: 'eval' }),
  role: roles('the model of a role, as in vf-eval: judge=NAME@URL, builtin or policy'),
};

export const ALLOWED = {
  allowPolicyHost: texts(
    'a host whose policy server requests may name, in addition to those of this machine; a server that is open to the network needs it for those too',
    { placeholder: 'HOST[:PORT]' },
  ),
  allowPolicyKeyVar: texts(
    'an environment variable whose value requests may send to a policy server as its key: to any server that they may name, or to HOST alone',
    {
      placeholder: 'NAME[@HOST[:PORT]]',
      otherwise: 'none',
    },
  ),
  exitWithStdin: flag('stop when stdin is closed, so that the server ends with the process that started it'),
};

/** To play by token ids. */
export const TOKENIZER = {
  tokenizer: text("the folder of the caller's model, or nano-base: needed to play by token ids", { placeholder: 'DIR', completion: 'folders' }),
};

export type ServedOptions = OptionValues<typeof SERVED & typeof ALLOWED> & Partial<OptionValues<typeof TOKENIZER>>;
