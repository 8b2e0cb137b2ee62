import { describe, expect, it } from "vitest";
import { ChainBuilder } from "../../conversation/chain.ts";
import type { Message } from "../../conversation/message.ts";
import { createRandom, type Random } from "../../random.ts";
import type { LoadedTokenizer } from "./chat-tokenizer.ts";
import { assistant, chainOf, folder, record, system, user } from "./fixtures/conversations.ts";
import { byteLevelTokenizer } from "./fixtures/model-folders.ts";
import { loadChatTokenizer } from "./load-chat-tokenizer.ts";

const prompt = { addGenerationPrompt: true };

/** One turn is `<s>role:…</s>`; what `body` prints beside the content ends with `</s>` too. */
const turns = (body: string, after = "") =>
  `{% for m in messages %}{{ '<s>' ~ m.role ~ ':' }}${body}</s>{% endfor %}${after}{% if add_generation_prompt %}<s>assistant:{% endif %}`;
const users = (condition: string) =>
  turns(`{% if m.role == 'user' and ${condition} %}extra</s>{% endif %}{{ m.content }}`);
const total =
  "{% set n = namespace(t=0) %}{% for m in messages %}{% set n.t = n.t + (m.content | length) %}{% endfor %}";

const templates: [string, string][] = [
  ["the length of a message", users("m.content | length > 12")],
  ["the length of a name", turns("{% if m.name and m.name | length > 3 %}{{ m.name }}</s>{% endif %}{{ m.content }}")],
  ["the length of a reply", turns("{{ m.content }}{% if m.content.length > 12 %}</s>long{% endif %}")],
  [
    "the length of all messages, before them",
    `${total}{% if n.t > 60 %}full</s>{% endif %}${turns("{{ m.content }}")}`,
  ],
  ["the length of all messages, after them", total + turns("{{ m.content }}", "{% if n.t > 60 %}full</s>{% endif %}")],
  ["the first character", users("m.content[0] == '!'")],
  ["the last characters", users("m.content[-2:] == '!c'")],
  ["a table of first characters", users("m.content[0] in {'!': 1}")],
  ["how a message begins", users("m.content.startswith('!')")],
  ["how the first message begins", users("m.content.startswith(messages[0].content[0])")],
  ["what is in a message", users("'!' in m.content")],
  ["what can be replaced in it", users("m.content.replace('!', '') != m.content")],
  ["the number of its parts", users("m.content.split('!') | length > 1")],
  ["the number of its lines", users("m.content.split('\\n') | length > 1")],
  [
    "each of its parts",
    turns(
      "{% if m.role == 'user' %}{% for c in m.content.split('!') %}{{ c }}</s>{% endfor %}{% endif %}{{ m.content }}",
    ),
  ],
  ["its capitals", users("m.content | upper == m.content")],
  ["its capitals, by a test", users("m.content is upper")],
  ["the spaces around it", users("m.content | trim != m.content")],
  ["its likeness to the first", users("m.content[0] == messages[0].content[0]")],
  ["reasoning in it", turns("{{ m.content.split('</think>')[-1] }}")],
];

async function withTemplate(source: string): Promise<LoadedTokenizer> {
  const files = {
    "tokenizer.json": await byteLevelTokenizer(),
    "tokenizer_config.json": { bos_token: "<s>", eos_token: "</s>" },
  };
  return loadChatTokenizer(await folder({ ...files, "chat_template.jinja": source }));
}

const oneOf = (random: Random, ...texts: string[]) => texts[random.below(texts.length)]!;

function somebody(random: Random, index: number): Message[] {
  const words = " and so on".repeat(random.below(3));
  const content = `${oneOf(random, "!", "a", "Q")}${index}${words}${oneOf(random, "", "!", "\nb", " ", "!!c")}`;
  const named = random.next() < 0.3 ? { name: oneOf(random, "Bo", "Robert") } : {};
  return [{ ...user(content), ...named }, ...(random.next() < 0.2 ? [user("ALL")] : [])];
}

describe("a template that decides by what is said", () => {
  it("goes on though it drops reasoning from the past", async () => {
    const tokenizer = await withTemplate(
      turns(
        "{% if m.content | length > 3 and m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}",
      ),
    );
    const messages = [user("Hello"), assistant("Yes.", { reasoning: "So." }), user("And now?")];
    const chain = chainOf(tokenizer, [user("Hello")], { sampled: "<think>So.</think>Yes.</s>", message: messages[1]! });
    const next = tokenizer.extend(chain, messages, prompt);
    expect(next.kind).toBe("append");
    expect(tokenizer.decode(next.tokens, { skipSpecial: false })).toBe("<s>user:And now?</s><s>assistant:");
  });

  it.each(templates)("is never misunderstood, by %s", async (_, source) => {
    const tokenizer = await withTemplate(source);
    const random = createRandom(4);
    let appended = 0;
    for (let round = 0; round < 30; round++) {
      const messages: Message[] = random.next() < 0.5 ? [system("Be brief.")] : [];
      let chain: ChainBuilder | undefined;
      for (let turn = 0; turn < 4; turn++) {
        messages.push(...somebody(random, messages.length));
        const whole = tokenizer.render(messages, prompt);
        const next = tokenizer.extend(chain, messages, prompt);
        if (next.kind === "append") {
          appended++;
          const said = messages.findLast(({ role }) => role === "assistant")!.content;
          const rest = whole.slice(whole.lastIndexOf(said) + said.length);
          expect(`</s>${tokenizer.decode(next.tokens, { skipSpecial: false })}`).toBe(rest);
          chain!.append(next.tokens, messages);
        } else {
          expect(tokenizer.decode(next.tokens, { skipSpecial: false })).toBe(whole);
          chain = new ChainBuilder({ messages, tokens: next.tokens });
        }
        const reply = assistant(`Reply ${round}.${turn}${" with words".repeat(random.below(3))}`);
        record(tokenizer, chain!, { sampled: `${reply.content}</s>`, message: reply });
        messages.push(reply);
        // What the chain holds is what the template prints, if with the last reply open.
        if (next.kind === "append")
          expect(tokenizer.decode(chain!.tokens, { skipSpecial: false })).toBe(`${whole}${reply.content}</s>`);
      }
    }
    expect(appended).toBeGreaterThan(30);
  });
});
