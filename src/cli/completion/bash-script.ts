/** The completion script of bash. zsh reads the same one through its `bashcompinit`. */
import type { CompletedCommand, Offer } from './completion-words.ts';

/** @param commands `vf` and the commands that it names */
export function bashScript(commands: readonly CompletedCommand[]): string {
  const all = commands.flatMap((command) => [command, ...command.below]);
  const groups = commands.filter(({ name, below }) => below.length > 0 && name !== 'vf').map(({ name }) => name);
  return `# Completes the commands of vf-search. In bash: source <(vf completion bash)
_vf_search_options() {
  case "$1" in
${all.map(({ name, options }) => `    ${quoted(name)}) echo ${quoted(options.flatMap(({ spellings }) => spellings[0]!).join(' '))} ;;`).join('\n')}
  esac
}

# What an option takes: "paths words", nothing for a switch.
_vf_search_value() {
  case "$1" in
${all.flatMap(valueLines).join('\n')}
  esac
}

_vf_search_argument() {
  case "$1" in
${all.map(({ name, argument }) => `    ${quoted(name)}) echo ${quoted(offerText(argument))} ;;`).join('\n')}
  esac
}

_vf_search() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" command="\${COMP_WORDS[0]##*/}" next=1 offer paths line
  if [[ "$cur" == '=' ]]; then cur=''; elif [[ "$prev" == '=' ]]; then prev="\${COMP_WORDS[COMP_CWORD-2]}"; fi
  if [[ "$command" == vf && $COMP_CWORD -gt 1 ]]; then
    if [[ "\${COMP_WORDS[1]}" == completion ]]; then command='vf completion'; else command="vf-\${COMP_WORDS[1]}"; fi
    next=2
  fi
  case "$command" in
    ${groups.join('|')}) if [[ $COMP_CWORD -gt $next ]]; then command="$command \${COMP_WORDS[$next]}"; fi ;;
  esac
  offer="$(_vf_search_value "$command $prev")"
  if [[ -z "$offer" ]]; then
    if [[ "$cur" == -* ]]; then offer="none $(_vf_search_options "$command")"; else offer="$(_vf_search_argument "$command")"; fi
  fi
  paths="\${offer%% *}"
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ -n "$line" ]]; then COMPREPLY+=("$line"); fi
  done < <(
    compgen -W "\${offer#* }" -- "$cur"
    case "$paths" in
      files) compgen -f -- "$cur" ;;
      folders) compgen -d -- "$cur" ;;
    esac
  )
}

complete -o filenames -F _vf_search ${commands.map(({ name }) => name).join(' ')}
`;
}

function valueLines({ name, options }: CompletedCommand): string[] {
  return options.flatMap(({ spellings, offer }) =>
    offer === null ? [] : [`    ${spellings.map((spelling) => quoted(`${name} ${spelling}`)).join('|')}) echo ${quoted(offerText(offer))} ;;`],
  );
}

function offerText({ paths, words }: Offer): string {
  return `${paths ?? 'none'} ${words.join(' ')}`;
}

/** A word for bash. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
