/** Random weights behind the starter's vocabulary, with a template that writes calls in a format. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { starterModelPath } from "@stateset-agents/starter-model";
import { openPolicy } from "../src/policy/open-policy.ts";
import type { Policy } from "../src/policy/policy.ts";
import { byteLevelTokenizer, configFor, readTemplate } from "../src/policy/tokenizer/fixtures/model-folders.ts";
import { realTokenizer } from "../src/policy/tokenizer/fixtures/tokenizer-folders.ts";
import type { CallFormatName } from "../src/tool/format/call-format.ts";
import { makeTinyModel } from "./tiny-model.ts";

const shown = "{% if tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% endif %}";
const ends = { chatml: "<|im_end|>", mistral: "</s>" };
const mistral =
  `{{ bos_token }}{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}` +
  `{% for m in messages %}{% if m.role == 'user' or m.role == 'system' %}[INST] {{ m.content }}[/INST]` +
  `{% elif m.tool_calls %}{% if m.content %}{{ m.content }}{% endif %}[TOOL_CALLS] [{% for c in m.tool_calls %}` +
  `{% if c.id | length != 9 %}{{ raise_exception('ids have nine characters') }}{% endif %}` +
  `{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}, "id": "{{ c.id }}"}` +
  `{% if not loop.last %}, {% endif %}{% endfor %}]${ends.mistral}` +
  `{% elif m.role == 'tool' %}[TOOL_RESULTS] {{ m.content }}[/TOOL_RESULTS]{% else %} {{ m.content }}${ends.mistral}{% endif %}{% endfor %}`;
const pythonic =
  `${shown}{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.tool_calls %}{{ m.content }}[{% for c in m.tool_calls %}` +
  `{{ c.function.name }}({% if c.function.arguments is mapping %}{% for k, v in c.function.arguments | items %}{{ k }}={{ v | tojson }}` +
  `{% if not loop.last %}, {% endif %}{% endfor %}{% endif %}){% if not loop.last %}, {% endif %}{% endfor %}]` +
  `{% else %}{{ m.content }}{% endif %}${ends.chatml}\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}`;

export async function tinyChatModel(format: CallFormatName): Promise<Policy> {
  const tokenizer = await byteLevelTokenizer();
  const added = tokenizer.added_tokens as { id: number; content: string }[];
  const more = ["<|python_tag|>", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[INST]", "[/INST]"];
  added.push(...more.map((content, i) => ({ ...added.at(-1)!, special: true, id: 8200 + i, content })));
  const templates = {
    hermes: ["chatml", await templateIn(starterModelPath)],
    llama3: ["llama3", await templateIn(realTokenizer("llama3_2"))],
    mistral: ["mistral", mistral],
    json: ["chatml", await readTemplate("chatml")],
    pythonic: ["chatml", pythonic],
  } as const;
  const [kind, template] = templates[format];
  const small = { hidden_size: 16, intermediate_size: 16, num_hidden_layers: 1, num_attention_heads: 2 };
  const size = { vocab_size: 8208, max_position_embeddings: 8192, num_key_value_heads: 1 };
  const dir = await makeTinyModel("qwen2", { ...small, ...size, eos_token_id: undefined });
  await writeFile(join(dir, "tokenizer.json"), JSON.stringify(tokenizer));
  await writeFile(join(dir, "tokenizer_config.json"), JSON.stringify(configFor(kind)));
  await writeFile(join(dir, "chat_template.jinja"), template);
  return openPolicy({ model: dir, threads: 1 });
}

async function templateIn(dir: string): Promise<string> {
  const config = JSON.parse(await readFile(join(dir, "tokenizer_config.json"), "utf8")) as { chat_template: string };
  return config.chat_template;
}
