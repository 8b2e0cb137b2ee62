"""Asks a server with OpenAI's client for Python, as it is, and prints as JSON what came of it.
   python openai_client.py BASE_URL KEY POOR_KEY"""
import asyncio, json, sys, time
from typing import Literal

import openai
from pydantic import BaseModel, Field

base_url, key, poor_key = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key=key)
chat = client.chat.completions
question = [{"role": "user", "content": "Where is my parcel?"}]
orders = [{"role": "user", "content": "Where are 4821 and 5930?"}]
parameters = {"type": "object", "properties": {"order_id": {"type": "string", "maxLength": 8}}, "required": ["order_id"]}
tools = [{"type": "function", "function": {"name": "get_order", "parameters": parameters}}]
told = {}

asked = dict(model="starter", messages=question, seed=7, max_tokens=12)
whole = chat.create(**asked, logprobs=True, top_logprobs=2)
chunks = list(chat.create(**asked, stream=True, stream_options={"include_usage": True}))
told["words"] = whole.choices[0].message.content
told["streamed"] = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
told["usage"] = [whole.usage.total_tokens, chunks[-1].usage.total_tokens]
told["logprobs"] = [len(one.top_logprobs) for one in whole.choices[0].logprobs.content]
told["models"] = [model.id for model in client.models.list()]

reply = chat.create(model="shop-stub", messages=orders, tools=tools).choices[0]
calls = reply.message.tool_calls
told["calls"] = [[call.id, call.function.name, json.loads(call.function.arguments)] for call in calls]
results = [{"role": "tool", "tool_call_id": call.id, "content": f"result {i}"} for i, call in enumerate(calls)]
told["answer"] = chat.create(model="shop-stub", messages=[*orders, reply.message, *results], tools=tools).choices[0].message.content
with chat.stream(model="shop-stub", messages=orders, tools=tools) as stream:
    streamed = stream.get_final_completion().choices[0]
told["streamedCalls"] = [[call.id, call.function.name, json.loads(call.function.arguments)] for call in streamed.message.tool_calls]


class Verdict(BaseModel):
    mood: Literal["good", "bad"]
    stars: int = Field(ge=1, le=5)


parsed = chat.parse(model="starter", messages=question, seed=5, max_tokens=60, response_format=Verdict)
told["verdict"] = parsed.choices[0].message.parsed.model_dump()


def failure(ask):
    try:
        ask()
    except openai.APIError as error:
        return [type(error).__name__, error.code]


def read_late():
    for _ in chat.create(model="endless-stub", messages=question, stream=True, extra_body={"deadline": 50}):
        pass


def other(api_key):
    return openai.OpenAI(base_url=base_url, api_key=api_key).chat.completions


told["errors"] = [
    failure(lambda: other("sk-wrong").create(**asked)),
    failure(lambda: chat.create(**{**asked, "model": "startr"})),
    failure(lambda: chat.create(**{**asked, "temperature": 9})),
    failure(lambda: other(poor_key).create(**asked)),
    failure(lambda: chat.create(model="endless-stub", messages=question, extra_body={"deadline": 20})),
    failure(read_late),
    failure(lambda: client.with_options(max_retries=1).chat.completions.create(**{**asked, "model": "broken-stub"})),
]

# A full queue: the client waits for as long as it is told and comes again.
slept = []
really_sleep = time.sleep
endless = [chat.create(model="endless-stub", messages=question, stream=True) for _ in range(2)]


def sleep(seconds):
    slept.append(round(seconds * 1000))
    for stream in endless:
        stream.close()
    really_sleep(seconds)


time.sleep = sleep
told["afterFull"] = chat.create(model="endless-stub", messages=question, max_tokens=3).choices[0].finish_reason
time.sleep = really_sleep
told["slept"] = slept


async def leave():
    """Cancelled while it waits for a whole reply, as asyncio cancels."""
    async with openai.AsyncOpenAI(base_url=base_url, api_key=key) as own:
        task = asyncio.create_task(own.chat.completions.create(model="endless-stub", messages=question))
        await asyncio.sleep(0.2)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return True


told["left"] = asyncio.run(leave())
print(json.dumps(told))
